"""The kinds of object that k8sel applies to a cluster: how each names its pods, and what its operator does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from k8sel.facts.names import LABEL_JOB

_OPERATOR_LABEL = "training.kubeflow.org/job-name"  # on every pod, by both operators


TargetName = Literal["PyTorchJob", "MPIJob"]


class JobKind(Struct, frozen=True, kw_only=True):
    """One kind of job: its API, its pods, its operator, and the fields that may change while it exists."""

    kind: TargetName
    group: str
    version: str
    plural: str
    operator: str
    uses_mpi: bool  # runs the launchers that use MPI, and no others
    replica_specs: str  # the key under spec
    first: str  # ends the name of the first pod
    first_computes: bool  # the first pod is a node of the job; False: it only starts the others
    container: str | None  # the container that computes; None: the first one
    last: str | None  # the role whose pod is made only when all others are ready; None: all are made at once
    mutable: frozenset[str]  # keys of spec.runPolicy that the operator reads again and again
    retries_any_failure: bool  # backoffLimit counts any failure; False: only a status of 128 or more
    adds_init_container: bool  # to every pod but the first
    unbuffers: bool  # appends PYTHONUNBUFFERED=1 to the env of the pods
    source: dict[str, str]  # field -> the sources of its fact

    @property
    def api_version(self) -> str:
        """The apiVersion of a manifest."""
        return f"{self.group}/{self.version}"

    @property
    def api_path(self) -> str:
        """The API path of the group and version."""
        return f"/apis/{self.api_version}"

    def nodes(self, job: str, count: int) -> tuple[str, ...]:
        """The names of the pods that compute, by node rank; each is also a host name."""
        first = (self.first_pod(job),) if self.first_computes else ()
        return first + tuple(_worker(job, index) for index in range(count - len(first)))

    def pods(self, job: str, count: int) -> tuple[str, ...]:
        """The pod names of the job that must be DNS labels."""
        nodes = self.nodes(job, count)
        return nodes if self.first_computes else (self.first_pod(job), *nodes)

    def longest(self, job: str, count: int) -> str:
        """The longest of ``pods``, without a list of all."""
        workers = count - self.first_computes
        return max(self.first_pod(job), _worker(job, workers - 1) if workers else "", key=len)

    def first_pod(self, job: str) -> str:
        """The name of the job's first pod."""
        return f"{job}-{self.first}"

    def path(self, namespace: str, name: str = "") -> str:
        """The API path of one object, or of all objects in a namespace."""
        return f"{self.api_path}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


def _worker(job: str, index: int) -> str:
    return f"{job}-worker-{index}"


JOB_KINDS: Mapping[str, JobKind] = {
    "PyTorchJob": JobKind(
        kind="PyTorchJob",
        group="kubeflow.org",
        version="v1",
        plural="pytorchjobs",
        operator="training-operator",
        uses_mpi=False,
        replica_specs="pytorchReplicaSpecs",
        first="master-0",
        first_computes=True,
        container="pytorch",
        last=None,
        # Pods that exist are never changed; runPolicy is read at every reconcile.
        mutable=frozenset({"activeDeadlineSeconds", "backoffLimit", "cleanPodPolicy", "ttlSecondsAfterFinished"}),
        retries_any_failure=False,
        adds_init_container=True,
        unbuffers=True,
        source={
            "version": "kubeflow/trainer@v1.9.4 pkg/apis/kubeflow.org/v1/pytorch_types.go (2026-11-22)",
            "replica_specs": "kubeflow/trainer@v1.9.4 pkg/apis/kubeflow.org/v1/pytorch_types.go (2026-11-22)",
            "first": "kubeflow/trainer@v1.9.4 pkg/core/utils.go, GenGeneralName (2026-11-22)",
            "container": "kubeflow/trainer@v1.9.4 pkg/apis/kubeflow.org/v1/pytorch_types.go (2026-11-22)",
            "mutable": "kubeflow/trainer@v1.9.4 pkg/controller.v1/common/job.go, ReconcileJobs (2026-11-22)",
            "retries_any_failure": "kubeflow/trainer@v1.9.4 pkg/util/train/train_util.go (2026-11-22)",
            "adds_init_container": "kubeflow/trainer@v1.9.4 pkg/controller.v1/pytorch/initcontainer.go (2026-11-22)",
            "unbuffers": "kubeflow/trainer@v1.9.4 pkg/controller.v1/pytorch/envvar.go (2026-11-22)",
        },
    ),
    "MPIJob": JobKind(
        kind="MPIJob",
        group="kubeflow.org",
        version="v2beta1",
        plural="mpijobs",
        operator="mpi-operator",
        uses_mpi=True,
        replica_specs="mpiReplicaSpecs",
        first="launcher",
        first_computes=False,
        container=None,
        last="launcher",  # k8sel writes launcherCreationPolicy: WaitForWorkersReady
        # The rest of runPolicy goes into the launcher's Job once, when it is made.
        mutable=frozenset({"cleanPodPolicy"}),
        retries_any_failure=True,
        adds_init_container=False,
        unbuffers=False,
        source={
            "version": "kubeflow/mpi-operator@caa3c47fc42e pkg/apis/kubeflow/v2beta1/types.go (2026-11-22)",
            "replica_specs": "kubeflow/mpi-operator@caa3c47fc42e pkg/apis/kubeflow/v2beta1/types.go (2026-11-22)",
            "first": "kubeflow/mpi-operator@caa3c47fc42e pkg/controller/mpi_job_controller.go (2026-11-22)",
            "last": "kubeflow/mpi-operator@caa3c47fc42e pkg/apis/kubeflow/v2beta1/types.go, "
            "LauncherCreationPolicyWaitForWorkersReady (2026-11-22)",
            "mutable": "kubeflow/mpi-operator@caa3c47fc42e pkg/controller/mpi_job_controller.go, "
            "newLauncherJob (2026-11-22)",
            "retries_any_failure": "kubeflow/mpi-operator@caa3c47fc42e pkg/controller/mpi_job_controller.go, "
            "newLauncherJob (2026-11-22)",
        },
    ),
}


def object_path(manifest: Mapping[str, Any], namespace: str) -> str:
    """The API path of a manifest that k8sel renders."""
    name = manifest["metadata"]["name"]
    kind = JOB_KINDS.get(manifest["kind"])
    return kind.path(namespace, name) if kind else core_path("configmaps", namespace, name)


def core_path(plural: str, namespace: str, name: str = "") -> str:
    """The API path of an object of the core group."""
    return f"/api/v1/namespaces/{namespace}/{plural}" + (f"/{name}" if name else "")


def batch_path(namespace: str, name: str) -> str:
    """The API path of a batch Job, such as the one that an MPIJob's launcher has."""
    return f"/apis/batch/v1/namespaces/{namespace}/jobs/{name}"


def pod_selector(job: str) -> dict[str, str]:
    """The query that finds the pods with a job's name; an earlier job's pods have the same name."""
    return {"labelSelector": f"{_OPERATOR_LABEL}={job}"}


def own_selector(job: str) -> dict[str, str]:
    """The query that finds a job's ConfigMaps."""
    return {"labelSelector": f"{LABEL_JOB}={job}"}

"""The kinds of object that k8sel applies to a cluster, with the facts that a client needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from k8sel.facts.names import LABEL_JOB

_OPERATOR_LABEL = "training.kubeflow.org/job-name"  # on every pod, by both operators


@dataclass(frozen=True, kw_only=True, slots=True)
class JobKind:
    """One kind of job: its API, its operator, and the fields that may change while it exists."""

    kind: str
    group: str
    version: str
    plural: str
    operator: str
    replica_specs: str  # the key under spec
    container: str | None  # the container that computes; None: the first one
    last: str | None  # the role whose pod is made only when all others are ready; None: all are made at once
    mutable: frozenset[str]  # keys of spec.runPolicy that the operator reads again and again

    @property
    def api_version(self) -> str:
        """The apiVersion of a manifest."""
        return f"{self.group}/{self.version}"

    @property
    def api_path(self) -> str:
        """The API path of the group and version."""
        return f"/apis/{self.api_version}"

    def path(self, namespace: str, name: str = "") -> str:
        """The API path of one object, or of all objects in a namespace."""
        return f"{self.api_path}/namespaces/{namespace}/{self.plural}" + (f"/{name}" if name else "")


JOB_KINDS: Mapping[str, JobKind] = {
    "PyTorchJob": JobKind(
        kind="PyTorchJob",
        group="kubeflow.org",
        version="v1",
        plural="pytorchjobs",
        operator="training-operator",
        replica_specs="pytorchReplicaSpecs",
        container="pytorch",
        last=None,
        # Pods that exist are never changed; runPolicy is read at every reconcile:
        # kubeflow/trainer release-1.9 pkg/controller.v1/common/job.go, ReconcileJobs
        mutable=frozenset({"activeDeadlineSeconds", "backoffLimit", "cleanPodPolicy", "ttlSecondsAfterFinished"}),
    ),
    "MPIJob": JobKind(
        kind="MPIJob",
        group="kubeflow.org",
        version="v2beta1",
        plural="mpijobs",
        operator="mpi-operator",
        replica_specs="mpiReplicaSpecs",
        container=None,
        last="launcher",  # k8sel writes launcherCreationPolicy: WaitForWorkersReady
        # The rest of runPolicy goes into the launcher's Job once, when it is made:
        # kubeflow/mpi-operator v0.8.0 pkg/controller/mpi_job_controller.go, newLauncherJob
        mutable=frozenset({"cleanPodPolicy"}),
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


def pod_selector(job: str) -> dict[str, str]:
    """The query that finds a job's pods."""
    return {"labelSelector": f"{_OPERATOR_LABEL}={job}"}


def own_selector(job: str) -> dict[str, str]:
    """The query that finds a job's ConfigMaps."""
    return {"labelSelector": f"{LABEL_JOB}={job}"}

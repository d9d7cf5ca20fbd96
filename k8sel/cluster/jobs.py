"""Finds a job by its name, among all kinds of job."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from k8sel.cluster import trouble
from k8sel.cluster.rest import Cluster, Object, Refused, find
from k8sel.errors import ClusterError
from k8sel.facts.kinds import JOB_KINDS, JobKind, batch_path

_MOST_NODES = 10_000  # whose names are listed: a server can send any number of replicas


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRef:
    """The name of a job. Without a kind, any kind that k8sel makes; without a namespace, the cluster's."""

    name: str
    namespace: str | None = None
    kind: str | None = None

    def place(self, cluster: Cluster) -> str:
        """The namespace to look in."""
        return self.namespace or cluster.namespace


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveJob:
    """A job on the cluster."""

    kind: JobKind
    object: Object

    @property
    def name(self) -> str:
        """The job's name."""
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """The job's namespace."""
        return str(self.object["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """The job's uid: a later job may have the same name."""
        return str(self.object["metadata"]["uid"])

    @property
    def size(self) -> int:
        """The number of pods of the complete job."""
        specs = self.object["spec"].get(self.kind.replica_specs) or {}
        return sum(replica.get("replicas", 1) for replica in specs.values())

    @property
    def nodes(self) -> tuple[str, ...]:
        """The names of the complete job's pods in the plan."""
        most = min(self.size, _MOST_NODES)
        return self.kind.pods(self.name, most if self.kind.first_computes else most - 1)


@dataclass(frozen=True, kw_only=True, slots=True)
class Owner:
    """Tells a job's own pods from those of an earlier run, which have the same names and labels until they end.

    A PyTorchJob controls its pods (kubeflow/trainer release-1.9 pkg/controller.v1/common/pod.go, createNewPod). An
    MPIJob controls its workers, and a batch Job that controls the launcher's pods (kubeflow/mpi-operator v0.8.2
    pkg/controller/mpi_job_controller.go, newWorker and newLauncherJob).
    """

    cluster: Cluster
    job: LiveJob
    known: dict[str, bool] = field(default_factory=dict)  # uid of a batch Job -> if the job controls it

    def owns(self, item: Object) -> bool:
        """Reports if the job controls ``item``, or the batch Job that controls it."""
        references = item["metadata"].get("ownerReferences") or ()
        controller = next((each for each in references if each.get("controller")), None)
        if controller is None or controller["uid"] == self.job.uid:
            return controller is not None
        if controller["uid"] not in self.known:
            self.known[controller["uid"]] = controller["kind"] == "Job" and self._has_launcher(controller)
        return self.known[controller["uid"]]

    def _has_launcher(self, reference: Object) -> bool:
        """Reports if the job controls the batch Job of this reference. One that is deleted counts as another's."""
        try:
            found = find(self.cluster, batch_path(self.job.namespace, reference["name"]))
        except Refused as refused:
            raise trouble.clearly(self.cluster, refused) from refused
        return found is not None and found["metadata"]["uid"] == reference["uid"] and self.owns(found)


def get_job(cluster: Cluster, ref: JobRef) -> LiveJob:
    """The job that ``ref`` names. Raises ClusterError if there is none."""
    found = find_job(cluster, ref)
    if found is None:
        raise not_found(cluster, ref)
    return found


def find_job(cluster: Cluster, ref: JobRef) -> LiveJob | None:
    """The job that ``ref`` names, or None."""
    found, hidden = _look(cluster, ref)
    if len(found) > 1:
        kinds = " and ".join(each.kind.kind for each in found)
        raise ClusterError(
            f"namespace {ref.place(cluster)} has {kinds} {ref.name}. Choose: --kind {found[0].kind.kind}"
        )
    if not found and hidden:
        raise hidden[0]
    return found[0] if found else None


def variable(cluster: Cluster, ref: JobRef, name: str) -> str | None:
    """The value of a variable in the job's containers; None if no container sets it."""
    job = get_job(cluster, ref)
    replicas = (job.object["spec"].get(job.kind.replica_specs) or {}).values()
    containers = (each for replica in replicas for each in replica["template"]["spec"]["containers"])
    entries = (each for container in containers for each in container.get("env", []))
    return next((each.get("value") for each in entries if each["name"] == name), None)


def not_found(cluster: Cluster, ref: JobRef) -> ClusterError:
    """The error for a missing job, with the command that lists jobs; or for kinds that the cluster lacks."""
    missing = [trouble.missing_kind(cluster, kind) for kind in _kinds(ref)]
    if missing[0] and all(missing):
        return missing[0]
    names = " or ".join(kind.kind for kind in _kinds(ref))
    plurals = ",".join(f"{kind.plural}.{kind.group}" for kind in _kinds(ref))
    return ClusterError(
        f"{cluster.host}: no {names} named {ref.name} in namespace {ref.place(cluster)}. "
        f"See: kubectl get {plurals} -n {ref.place(cluster)}"
    )


def _look(cluster: Cluster, ref: JobRef) -> tuple[list[LiveJob], list[ClusterError]]:
    """The jobs of this name, and the errors of the kinds that could not be read.

    The caller raises such an error only if no other kind has the job. A kind that the cluster lacks has no job.
    """
    found, hidden = [], []
    for kind in _kinds(ref):
        try:
            live = find(cluster, kind.path(ref.place(cluster), ref.name))
        except Refused as refused:
            hidden.append(trouble.clearly(cluster, refused, kind))
            continue
        if live is not None:
            found.append(LiveJob(kind=kind, object=live))
    return found, hidden


def _kinds(ref: JobRef) -> Iterator[JobKind]:
    if ref.kind is not None and ref.kind not in JOB_KINDS:
        raise ClusterError(f"no kind of job is called {ref.kind}. Known: {', '.join(JOB_KINDS)}")
    yield from [JOB_KINDS[ref.kind]] if ref.kind else JOB_KINDS.values()

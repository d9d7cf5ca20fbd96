"""Finding a job by its name, of whichever kind it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from k8sel.cluster import trouble
from k8sel.cluster.rest import Cluster, Object, Refused, find
from k8sel.errors import ClusterError
from k8sel.facts.kinds import JOB_KINDS, JobKind


@dataclass(frozen=True, kw_only=True, slots=True)
class JobRef:
    """Which job is meant; without a kind, any that k8sel makes, without a namespace, the cluster's."""

    name: str
    namespace: str | None = None
    kind: str | None = None

    def place(self, cluster: Cluster) -> str:
        """The namespace to look in."""
        return self.namespace or cluster.namespace


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveJob:
    """A job as the cluster has it."""

    kind: JobKind
    object: Object

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.object["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Where it lives."""
        return str(self.object["metadata"]["namespace"])

    @property
    def uid(self) -> str:
        """Which one of this name it is: another job may follow it."""
        return str(self.object["metadata"]["uid"])

    @property
    def size(self) -> int:
        """How many pods it has when all are there."""
        specs = self.object["spec"].get(self.kind.replica_specs) or {}
        return sum(replica.get("replicas", 1) for replica in specs.values())


def get_job(cluster: Cluster, ref: JobRef) -> LiveJob:
    """The job that ``ref`` means; an error when there is none."""
    found = find_job(cluster, ref)
    if found is None:
        raise not_found(cluster, ref)
    return found


def find_job(cluster: Cluster, ref: JobRef) -> LiveJob | None:
    """The job that ``ref`` means; None when there is none."""
    found, hidden = _look(cluster, ref)
    if len(found) > 1:
        kinds = " and ".join(each.kind.kind for each in found)
        raise ClusterError(f"{ref.place(cluster)} has {kinds} named {ref.name}. Say which: --kind {found[0].kind.kind}")
    if not found and hidden:
        raise hidden[0]
    return found[0] if found else None


def variable(cluster: Cluster, ref: JobRef, name: str) -> str | None:
    """The value that the job's containers are started with; None where none of them has it."""
    job = get_job(cluster, ref)
    replicas = (job.object["spec"].get(job.kind.replica_specs) or {}).values()
    containers = (each for replica in replicas for each in replica["template"]["spec"]["containers"])
    entries = (each for container in containers for each in container.get("env", []))
    return next((each.get("value") for each in entries if each["name"] == name), None)


def not_found(cluster: Cluster, ref: JobRef) -> ClusterError:
    """That there is no such job, and how to see which there are; or that there cannot be any."""
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
    """What was found, and why some kinds could not be asked for: an error only if no other kind has the job.

    A kind that the cluster lacks is no error when it is one of several: it cannot be the one.
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

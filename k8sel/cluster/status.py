"""The state of a job in one frozen value, and the one reason that explains it. `read` is pure; `status` fetches."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from k8sel.cluster import trouble
from k8sel.cluster.jobs import JobRef, LiveJob, get_job
from k8sel.cluster.pods import Failure, PodStatus, in_order, pod_status
from k8sel.cluster.rest import Cluster, Object, Refused, request
from k8sel.errors import ClusterError
from k8sel.facts.kinds import core_path, pod_selector
from k8sel.facts.names import LABEL_QUEUE

Phase = Literal["Pending", "Running", "Restarting", "Succeeded", "Failed", "Suspended"]

_UNTOUCHED_SECONDS = 10
_QUIET = ("PodInitializing", "ContainerCreating", "")  # reasons that only say "not yet"
_OVERTAKEN = ("FailedScheduling",)  # warnings that the pod's own conditions say better, and take back
_PHASES: tuple[Phase, ...] = ("Failed", "Succeeded", "Suspended", "Restarting", "Running")


@dataclass(frozen=True, kw_only=True, slots=True)
class Condition:
    """One condition of the job, as its operator wrote it."""

    type: str
    status: str
    reason: str
    message: str
    since: str  # RFC 3339


@dataclass(frozen=True, kw_only=True, slots=True)
class Status:
    """A job, its pods, and why it is in its phase. Equal values mean that nothing worth saying has changed."""

    kind: str
    name: str
    namespace: str
    phase: Phase
    reason: str  # what explains the phase; "" when it explains itself
    conditions: tuple[Condition, ...]
    pods: tuple[PodStatus, ...]
    failure: Failure | None  # the first pod that failed

    @property
    def finished(self) -> bool:
        """Whether nothing more will happen."""
        return self.phase in ("Succeeded", "Failed")


def status(cluster: Cluster, ref: JobRef) -> Status:
    """The job's state now."""
    job = get_job(cluster, ref)
    pods = pods_of(cluster, job)
    return read(job, pods, warnings_of(cluster, job, pods))


def pods_of(cluster: Cluster, job: LiveJob) -> list[Object]:
    """The job's pods, as the API has them."""
    try:
        listing = request(cluster, "GET", core_path("pods", job.namespace), query=pod_selector(job.name)).object
    except Refused as refused:
        raise trouble.clearly(cluster, refused) from refused
    return list(listing.get("items", []))


def warnings_of(cluster: Cluster, job: LiveJob, pods: Iterable[Object]) -> list[Object]:
    """Warning events about the job, its launcher and its pods; none where events cannot be read: they only explain."""
    try:
        path = core_path("events", job.namespace)
        events = request(cluster, "GET", path, query={"fieldSelector": "type=Warning"}).object.get("items", [])
    except ClusterError:
        return []
    uids = {job.object["metadata"]["uid"], *(pod["metadata"]["uid"] for pod in pods)}
    return [event for event in events if event["involvedObject"].get("uid") in uids or of_launcher(event, job)]


def of_launcher(event: Object, job: LiveJob) -> bool:
    """Whether the event is about the batch Job that mpi-operator makes; an earlier job's of this name is not ours."""
    subject, created = event["involvedObject"], job.object["metadata"]["creationTimestamp"]
    return (subject.get("kind"), subject.get("name")) == ("Job", f"{job.name}-launcher") and _when(event) >= created


def read(job: LiveJob, pods: Iterable[Object], warnings: Iterable[Object] = (), now: datetime | None = None) -> Status:
    """A Status from what the API sent. Pure, but for the clock when ``now`` is not given."""
    seen = tuple(pod_status(pod, job.kind, job.name) for pod in sorted(pods, key=in_order))
    phase = "Failed" if _hangs(job, seen) else _phase(job.object)
    failure = _first([pod.failure for pod in seen if pod.failure])
    return Status(
        kind=job.kind.kind,
        name=job.name,
        namespace=job.namespace,
        phase=phase,
        reason=_reason(job, phase, seen, warnings, now or datetime.now(timezone.utc)),
        conditions=tuple(_condition(each) for each in _conditions(job.object)),
        pods=seen,
        failure=failure,
    )


def end(job: Object) -> Literal["Succeeded", "Failed"] | None:
    """How a job has ended, by its own record; None while it may still run."""
    phase = _phase(job)
    return phase if phase in ("Succeeded", "Failed") else None


def _conditions(job: Object) -> list[Object]:
    return list(job.get("status", {}).get("conditions") or [])


def _condition(condition: Object) -> Condition:
    return Condition(
        type=condition["type"],
        status=condition["status"],
        reason=condition.get("reason") or "",
        message=condition.get("message") or "",
        since=condition.get("lastTransitionTime") or "",
    )


def _phase(job: Object) -> Phase:
    true = {each["type"] for each in _conditions(job) if each["status"] == "True"}
    found: Phase = next((phase for phase in _PHASES if phase in true), "Pending")
    waits = job["spec"].get("runPolicy", {}).get("suspend") and found not in ("Failed", "Succeeded")
    return "Suspended" if waits else found


def _hangs(job: LiveJob, pods: tuple[PodStatus, ...]) -> bool:
    """Whether the operator waits for a node that has failed, which it does without end, holding the others' devices.

    kubeflow/mpi-operator v0.8.2 pkg/controller/mpi_job_controller.go: only an evicted worker fails the job.
    """
    waits = job.kind.last is not None and all(pod.role != job.kind.last for pod in pods)
    return waits and _phase(job.object) in ("Pending", "Running") and any(pod.failure for pod in pods)


def _first(failures: list[Failure]) -> Failure | None:
    """The one that ended first: the others mostly follow from it."""
    return min(failures, key=lambda failure: (failure.finished == "", failure.finished), default=None)


def _reason(job: LiveJob, phase: Phase, pods: tuple[PodStatus, ...], warnings: Iterable[Object], now: datetime) -> str:
    if phase == "Suspended":
        queue = job.object["metadata"].get("labels", {}).get(LABEL_QUEUE)
        return f"waits in queue {queue} to be admitted" if queue else "suspended: spec.runPolicy.suspend is true"
    if phase in ("Failed", "Restarting"):
        said = (each["message"] for each in _conditions(job.object) if each["type"] == phase)
        return next(said, f"the {job.kind.operator} waits for a node that failed: `k8sel delete` frees the others")
    if phase == "Succeeded":
        return ""
    if phase == "Running" and len(pods) >= job.size:
        warnings = ()  # all pods are there: what was warned of before is over
    return _held_up(pods) or _last_warning(warnings) or (_untouched(job, now) if phase == "Pending" else "")


def _held_up(pods: tuple[PodStatus, ...]) -> str:
    """The first pod that cannot start, in the kubelet's or the scheduler's words."""
    for pod in pods:
        if pod.phase == "Pending" and pod.reason not in _QUIET:
            return f"{pod.name}: {pod.reason}" + (f": {pod.message}" if pod.message else "")
    return ""


def _last_warning(warnings: Iterable[Object]) -> str:
    """The newest warning: where a pod is refused (quota, Pod Security) or an MPIJob is invalid, all is said there."""
    now = (event for event in warnings if event.get("reason") not in _OVERTAKEN)
    newest = max(now, key=_when, default=None)
    return f"{newest.get('reason', '')}: {newest.get('message', '')}" if newest else ""


def _when(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def _untouched(job: LiveJob, now: datetime) -> str:
    """No condition after some seconds means that no operator watches."""
    created = datetime.fromisoformat(job.object["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
    if _conditions(job.object) or (now - created).total_seconds() < _UNTOUCHED_SECONDS:
        return ""
    return f"no operator has taken it up: is the {job.kind.operator} running?"

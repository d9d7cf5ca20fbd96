"""The state of a job as one frozen value with one reason. `read` is pure; `status` asks the server."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from k8sel.cluster import trouble
from k8sel.cluster.jobs import JobRef, LiveJob, Owner, get_job
from k8sel.cluster.pods import Failure, PodStatus, in_order, pod_status
from k8sel.cluster.rest import Cluster, Object, Refused, request
from k8sel.errors import ClusterError
from k8sel.facts.kinds import JOB_KINDS, core_path, pod_selector
from k8sel.facts.names import LABEL_QUEUE

Phase = Literal["Pending", "Running", "Restarting", "Succeeded", "Failed", "Suspended"]

_UNTOUCHED_SECONDS = 10
_QUIET = ("PodInitializing", "ContainerCreating", "")  # reasons that only mean "not yet"
_OVERTAKEN = ("FailedScheduling",)  # the pod's own conditions are more exact, and end when the pod is scheduled
# The training-operator's and the mpi-operator's words for an object that has another owner.
_EXISTS = re.compile(r'"([^"]+)"(?: of Kind "\w*")? already exists')
_POD_NAME = re.compile(r"-(?:launcher|master-\d+|worker-\d+)$")
_ENTRYPOINT = "k8sel: "  # begins the line with the fact, among the last lines of a log
_SHOWN = 10  # names of removed pods
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
    """A job, its pods, and the reason for its phase. Two equal values need no new message."""

    kind: str
    name: str
    namespace: str
    phase: Phase
    reason: str  # the reason for the phase; "" if it needs none
    conditions: tuple[Condition, ...]
    pods: tuple[PodStatus, ...]
    failure: Failure | None  # the first pod that failed
    removed: tuple[str, ...]  # nodes of an ended job that have no pod any more, and so no log

    @property
    def finished(self) -> bool:
        """True after the job's end."""
        return self.phase in ("Succeeded", "Failed")


def status(cluster: Cluster, ref: JobRef) -> Status:
    """Reads the job's present state from the server."""
    job = get_job(cluster, ref)
    pods = pods_of(cluster, job)
    return read(job, pods, warnings_of(cluster, job, pods))


def pods_of(cluster: Cluster, job: LiveJob) -> list[Object]:
    """The job's pods, as the API returns them."""
    try:
        listing = request(cluster, "GET", core_path("pods", job.namespace), query=pod_selector(job.name)).object
    except Refused as refused:
        raise trouble.clearly(cluster, refused) from refused
    owner = Owner(cluster=cluster, job=job)
    return [pod for pod in listing.get("items") or () if owner.owns(pod)]


def warnings_of(cluster: Cluster, job: LiveJob, pods: Iterable[Object]) -> list[Object]:
    """Warning events about the job, its launcher and its pods; none if they cannot be read: they only explain."""
    try:
        path = core_path("events", job.namespace)
        events = request(cluster, "GET", path, query={"fieldSelector": "type=Warning"}).object.get("items", [])
    except ClusterError:
        return []
    uids = {job.object["metadata"]["uid"], *(pod["metadata"]["uid"] for pod in pods)}
    return [event for event in events if event["involvedObject"].get("uid") in uids or of_launcher(event, job)]


def of_launcher(event: Object, job: LiveJob) -> bool:
    """Reports if the event is about the batch Job of this job's launcher, and not of an earlier job of this name."""
    subject, created = event["involvedObject"], job.object["metadata"]["creationTimestamp"]
    return (subject.get("kind"), subject.get("name")) == ("Job", f"{job.name}-launcher") and _when(event) >= created


def read(job: LiveJob, pods: Iterable[Object], warnings: Iterable[Object] = (), now: datetime | None = None) -> Status:
    """Makes a Status of the API's objects. Pure if ``now`` is given; else it reads the clock."""
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
        removed=without_pod(job, {pod.node for pod in seen}),
    )


def without_pod(job: LiveJob, present: Collection[str]) -> tuple[str, ...]:
    """The nodes of an ended job that are not ``present``. Before the end, a node without a pod only waits for one."""
    return tuple(node for node in job.nodes if node not in present) if end(job.object) else ()


def removal(kind: str, removed: Sequence[str], of: int) -> str:
    """The line about removed pods; "" for none. An MPI rank writes to the launcher's log."""
    if not removed:
        return ""
    launcher = JOB_KINDS[kind].last
    ranks = ". Their ranks wrote to the launcher's log" if launcher and f"-{launcher}" not in removed[0] else ""
    more = f" and {len(removed) - _SHOWN} more" if len(removed) > _SHOWN else ""
    names = ", ".join(removed[:_SHOWN]) + more
    return (
        f"{len(removed)} of {of} pods are gone, and no log is left of them: {names}{ranks}. "
        "The operator removes pods that still run when the job ends (spec.policy.cleanPodPolicy)"
    )


def end(job: Object) -> Literal["Succeeded", "Failed"] | None:
    """The end of a job by its own conditions; None while it may still run."""
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
    """Reports if the operator waits for a failed node. It waits forever, and the other nodes keep their devices.

    kubeflow/mpi-operator v0.8.2 pkg/controller/mpi_job_controller.go: only an evicted worker fails the job.
    """
    waits = job.kind.last is not None and all(pod.role != job.kind.last for pod in pods)
    return waits and _phase(job.object) in ("Pending", "Running") and any(pod.failure for pod in pods)


def _first(failures: list[Failure]) -> Failure | None:
    """The failure that came first: it usually causes the others."""
    return min(failures, key=lambda failure: (failure.finished == "", failure.finished), default=None)


def _reason(job: LiveJob, phase: Phase, pods: tuple[PodStatus, ...], warnings: Iterable[Object], now: datetime) -> str:
    if phase == "Suspended":
        queue = job.object["metadata"].get("labels", {}).get(LABEL_QUEUE)
        return f"waits in queue {queue} to be admitted" if queue else "suspended: spec.runPolicy.suspend is true"
    if phase == "Failed" and end(job.object) and not _past_deadline(job.object):
        cause = _cause(_first([pod.failure for pod in pods if pod.failure]))
        if cause:
            return cause
    if phase in ("Failed", "Restarting"):
        messages = (each["message"] for each in _conditions(job.object) if each["type"] == phase)
        return next(messages, f"the {job.kind.operator} waits for a node that failed: `k8sel delete` frees the others")
    if phase == "Succeeded":
        return ""
    if phase == "Running" and len(pods) >= job.size:
        warnings = ()  # all pods exist: earlier warnings no longer matter
    return _blocked(pods) or _last_warning(warnings, pods) or (_untouched(job, now) if phase == "Pending" else "")


def _blocked(pods: tuple[PodStatus, ...]) -> str:
    """The first pod that cannot start, with the kubelet's or the scheduler's message."""
    for pod in pods:
        if pod.phase == "Pending" and pod.reason not in _QUIET:
            return f"{pod.name}: {pod.reason}" + (f": {pod.message}" if pod.message else "")
    return ""


def _last_warning(warnings: Iterable[Object], pods: tuple[PodStatus, ...]) -> str:
    """The newest warning. It explains a refused pod (quota, Pod Security) and an invalid MPIJob."""
    now = (event for event in warnings if event.get("reason") not in _OVERTAKEN)
    newest = max(now, key=_when, default=None)
    if newest is None:
        return ""
    text = newest.get("message", "")
    taken = _EXISTS.search(text)
    return _name_taken(taken[1], pods) if taken else f"{newest.get('reason', '')}: {text}"


def _name_taken(name: str, pods: tuple[PodStatus, ...]) -> str:
    """The reason for a refused object whose name exists; "" once the job has its own."""
    own = any(name in (pod.name, pod.node) for pod in pods)
    made_before_pods = bool(pods) and not _POD_NAME.search(name)  # a Service, a Secret or a ConfigMap
    return (
        "" if own or made_before_pods else f"waits for the end of {name}, which belongs to an earlier job of this name"
    )


def _cause(failure: Failure | None) -> str:
    """The first failure on one line. The operator only counts failures: its message names no pod and no cause."""
    if failure is None:
        return ""
    status = "" if failure.exit_code is None else f" with exit status {failure.exit_code}"
    lines = failure.message.splitlines() or [""]
    telling = next((line for line in lines if line.startswith(_ENTRYPOINT)), lines[-1])
    return f"{failure.pod} ended{status} ({failure.reason})" + (f": {telling}" if telling else "")


def _past_deadline(job: Object) -> bool:
    """Reports if the operator ended the job: its pods failed because of that."""
    return any("deadline" in each.get("message", "").lower() for each in _conditions(job) if each["type"] == "Failed")


def _when(event: Object) -> str:
    return str(event.get("lastTimestamp") or event.get("eventTime") or event["metadata"].get("creationTimestamp") or "")


def _untouched(job: LiveJob, now: datetime) -> str:
    """A message if no operator handles the job: it has no condition after some seconds."""
    created = datetime.fromisoformat(job.object["metadata"]["creationTimestamp"].replace("Z", "+00:00"))
    if _conditions(job.object) or (now - created).total_seconds() < _UNTOUCHED_SECONDS:
        return ""
    return f"no operator handles this job: check that the {job.kind.operator} runs"

"""What a pod's own record says of it: pure, from the API's JSON to a PodStatus."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from k8sel.cluster.rest import Object
from k8sel.facts.kinds import JobKind

_ROLE = "training.kubeflow.org/job-role"
_REPLICA = "training.kubeflow.org/replica-type"
_INDEX = "training.kubeflow.org/replica-index"
_ORDER = ("launcher", "master", "worker")
# runc's words, as containerd passes them on: exec: "nope": executable file not found in $PATH: unknown
_NOT_STARTED = re.compile(r'(?:exec: "(?P<file>[^"]*)"|(?:stat|exec) (?P<path>/\S+)): (?P<why>[^:]+)')
_NO_PYTHON = "k8sel's entrypoint needs python3 in the image; or build it in and say entrypoint.mode: image"


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """How a container ended badly: what `kubectl describe` would show, in one line."""

    pod: str
    node: str
    exit_code: int | None
    reason: str
    message: str
    finished: str  # RFC 3339, "" when unknown


@dataclass(frozen=True, kw_only=True, slots=True)
class PodStatus:
    """One pod of a job."""

    name: str
    node: str  # the name that the plan gives this node; the pod's, without what an operator appended
    role: str  # launcher, master or worker
    host: str  # the cluster's node that it runs on; "" before it is placed
    phase: str
    ready: bool
    restarts: int
    reason: str  # why it is not running, or how it ended; "" when there is nothing to say
    message: str
    failure: Failure | None


def pod_status(pod: Object, kind: JobKind, job: str) -> PodStatus:
    """The record of one pod, read."""
    status, main = pod.get("status", {}), main_status(pod, kind)
    failure = _failure(pod, kind, job)
    reason, message = (failure.reason, failure.message) if failure else _waiting(pod)
    return PodStatus(
        name=pod["metadata"]["name"],
        node=node_name(pod, job),
        role=role(pod),
        host=pod["spec"].get("nodeName", ""),
        phase="Terminating" if pod["metadata"].get("deletionTimestamp") else status.get("phase", "Pending"),
        ready=bool(main.get("ready")),
        restarts=main.get("restartCount", 0),
        reason=reason,
        message=message,
        failure=failure,
    )


def in_order(pod: Object) -> tuple[int, int, str, str]:
    """Sorts pods as a person lists them: launcher, master, workers by their index; of several tries the first first."""
    labels = pod["metadata"].get("labels", {})
    place = _ORDER.index(role(pod)) if role(pod) in _ORDER else len(_ORDER)
    created = pod["metadata"].get("creationTimestamp") or ""
    return place, int(labels.get(_INDEX) or 0), created, pod["metadata"]["name"]


def role(pod: Object) -> str:
    """What the pod is in its job. The training-operator labels job-role on a master alone."""
    labels = pod["metadata"].get("labels", {})
    return str(labels.get(_REPLICA) or labels.get(_ROLE) or "").lower()


def node_name(pod: Object, job: str) -> str:
    """The pod's name; the launcher's without the suffix that its Job gave it."""
    return f"{job}-launcher" if role(pod) == "launcher" else str(pod["metadata"]["name"])


def main_container(pod: Object, kind: JobKind) -> str:
    """The container that computes."""
    names: list[str] = [container["name"] for container in pod["spec"]["containers"]]
    return next((name for name in names if name == kind.container), names[0])


def main_status(pod: Object, kind: JobKind) -> Mapping[str, Any]:
    """The record of the container that computes; {} before the kubelet has one."""
    wanted = main_container(pod, kind)
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return next((each for each in statuses if each["name"] == wanted), {})


def started(pod: Object, kind: JobKind) -> bool:
    """Whether there can be a log yet."""
    main = main_status(pod, kind)
    return any(main.get(when, {}).get(state) for when in ("state", "lastState") for state in ("running", "terminated"))


def ended(pod: Object) -> bool:
    """Whether no container of it will run again."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _failure(pod: Object, kind: JobKind, job: str) -> Failure | None:
    """The first container that ended with another status than 0, or the pod's own end (evicted, deadline)."""
    ends = sorted(_bad_ends(pod), key=lambda end: end.get("finishedAt") or "")
    status, name, node = pod.get("status", {}), pod["metadata"]["name"], node_name(pod, job)
    if ends:
        end = ends[0]
        reason, message = _ending(end)
        return Failure(
            pod=name, node=node, exit_code=end.get("exitCode"), reason=reason, message=message,
            finished=end.get("finishedAt") or "",
        )  # fmt: skip
    if status.get("phase") == "Failed":
        reason, message = status.get("reason") or "Failed", status.get("message") or ""
        return Failure(pod=name, node=node, exit_code=None, reason=reason, message=message, finished="")
    return None


def _bad_ends(pod: Object) -> Iterator[Mapping[str, Any]]:
    """Ends of containers that failed: of this start, or, when it waits to be started again, of the last one."""
    status = pod.get("status", {})
    for each in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        state = each.get("state", {})
        end = state.get("terminated") or (each.get("lastState", {}).get("terminated") if "waiting" in state else None)
        if end and end.get("exitCode"):
            yield end


def _ending(end: Mapping[str, Any]) -> tuple[str, str]:
    """Reason and message, in words that say what to do."""
    reason, message = end.get("reason") or "Error", (end.get("message") or "").strip()
    if reason == "OOMKilled":
        return reason, message or "out of memory: raise spec.resources.memory (spec.sharedMemory counts as memory)"
    if reason in ("StartError", "ContainerCannotRun"):
        return reason, _not_started(message)
    return reason, _torch_error(message)


def _not_started(message: str) -> str:
    match = _NOT_STARTED.search(message)
    if match is None:
        return message
    file = match["file"] or match["path"]
    hint = f". {_NO_PYTHON}" if "python" in file else ""
    return f"the image cannot start {file}: {match['why'].strip()}{hint}"


def _torch_error(message: str) -> str:
    """torch's error file is JSON: {"message": {"message": "RuntimeError: ..."}}. Anything else is itself."""
    try:
        inner = json.loads(message)["message"]
    except (ValueError, KeyError, TypeError):
        return message
    return str(inner.get("message", message)) if isinstance(inner, dict) else str(inner)


def _waiting(pod: Object) -> tuple[str, str]:
    """Why a pod does not run yet: the kubelet's reason, else the scheduler's."""
    status = pod.get("status", {})
    for each in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        waiting = each.get("state", {}).get("waiting", {})
        if waiting.get("reason"):
            return waiting["reason"], waiting.get("message") or ""
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return condition.get("reason") or "Unschedulable", condition.get("message") or ""
    return "", ""

"""Turns the API's JSON of a pod into a PodStatus. Pure."""

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
_NUMBER = re.compile("[0-9]{1,9}")
# runc's message, as containerd reports it: exec: "nope": executable file not found in $PATH: unknown
_NOT_STARTED = re.compile(r'(?:exec: "(?P<file>[^"]*)"|(?:stat|exec) (?P<path>/\S+)): (?P<why>[^:]+)')
_NO_PYTHON = "Use an image with python3, or build the entrypoint into the image and set entrypoint.mode: image"


@dataclass(frozen=True, kw_only=True, slots=True)
class Failure:
    """The failure of a container: the facts that `kubectl describe` shows."""

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
    node: str  # the node's name in the plan: the pod's name without an operator's suffix
    role: str  # launcher, master or worker
    host: str  # the cluster's node that runs the pod; "" before it is scheduled
    phase: str
    ready: bool
    restarts: int
    reason: str  # why it does not run, or how it ended; "" if there is no reason
    message: str
    failure: Failure | None


def pod_status(pod: Object, kind: JobKind, job: str) -> PodStatus:
    """The status of one pod."""
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
    """The key that sorts pods: launcher, master, workers by index; attempts by their age."""
    labels = pod["metadata"].get("labels", {})
    place = _ORDER.index(role(pod)) if role(pod) in _ORDER else len(_ORDER)
    created = pod["metadata"].get("creationTimestamp") or ""
    return place, _index(labels.get(_INDEX, "")), created, pod["metadata"]["name"]


def _index(label: str) -> int:
    """The replica's number; 0 for a label that the operator did not write."""
    return int(label) if _NUMBER.fullmatch(label) else 0


def role(pod: Object) -> str:
    """The pod's role in its job. The training-operator sets the label job-role only on a master."""
    labels = pod["metadata"].get("labels", {})
    return str(labels.get(_REPLICA) or labels.get(_ROLE) or "").lower()


def node_name(pod: Object, job: str) -> str:
    """The pod's name. The launcher's has no suffix here: its Job adds one."""
    return f"{job}-launcher" if role(pod) == "launcher" else str(pod["metadata"]["name"])


def main_container(pod: Object, kind: JobKind) -> str:
    """The container that computes."""
    names: list[str] = [container["name"] for container in pod["spec"]["containers"]]
    return next((name for name in names if name == kind.container), names[0])


def main_status(pod: Object, kind: JobKind) -> Mapping[str, Any]:
    """The status of the container that computes; {} before the kubelet reports one."""
    wanted = main_container(pod, kind)
    statuses = pod.get("status", {}).get("containerStatuses", [])
    return next((each for each in statuses if each["name"] == wanted), {})


def started(pod: Object, kind: JobKind) -> bool:
    """Reports if the pod can have a log: its main container runs or has ended."""
    main = main_status(pod, kind)
    return any(main.get(when, {}).get(state) for when in ("state", "lastState") for state in ("running", "terminated"))


def ended(pod: Object) -> bool:
    """Reports if the pod is over: none of its containers will run again."""
    return pod.get("status", {}).get("phase") in ("Succeeded", "Failed")


def _failure(pod: Object, kind: JobKind, job: str) -> Failure | None:
    """The failure of the first container with a non-zero exit status, or of the pod itself (evicted, deadline)."""
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
    """The failures of containers: of the present run, or of the last run of a container that waits to restart."""
    status = pod.get("status", {})
    for each in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        state = each.get("state", {})
        end = state.get("terminated") or (each.get("lastState", {}).get("terminated") if "waiting" in state else None)
        if end and end.get("exitCode"):
            yield end


def _ending(end: Mapping[str, Any]) -> tuple[str, str]:
    """Reason and message, with the next step where it is known."""
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
    """The error in torch's error file, {"message": {"message": "RuntimeError: ..."}}; else ``message`` itself."""
    try:
        inner = json.loads(message)["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return message
    return str(inner.get("message", message)) if isinstance(inner, dict) else str(inner)


def _waiting(pod: Object) -> tuple[str, str]:
    """The reason and message of a pod that does not run yet: the kubelet's, else the scheduler's."""
    status = pod.get("status", {})
    for each in [*status.get("initContainerStatuses", []), *status.get("containerStatuses", [])]:
        waiting = each.get("state", {}).get("waiting", {})
        if waiting.get("reason"):
            return waiting["reason"], waiting.get("message") or ""
    for condition in status.get("conditions", []):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            return condition.get("reason") or "Unschedulable", condition.get("message") or ""
    return "", ""

"""The common parts of all targets: metadata, pod template, container, run policy. Keys have Kubernetes' usual order."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from msgspec import Struct

from k8sel.entrypoint.protocol import EMPTIED, VARIABLE
from k8sel.facts import fields, names
from k8sel.planning import env
from k8sel.planning.launch import FOLDER
from k8sel.planning.plan import Argv, Fragment, JobPlan

# Mounts that k8sel adds.
SHARED_MEMORY = {"name": "k8sel-shm", "mountPath": "/dev/shm"}
ENTRYPOINT = {"name": "k8sel", "mountPath": FOLDER, "readOnly": True}

Object = dict[str, Any]


def metadata(plan: JobPlan) -> Object:
    """The metadata of the job's own object."""
    queue = {names.LABEL_QUEUE: plan.queue} if plan.queue else {}
    placed = {"name": plan.name, "namespace": plan.namespace} if plan.namespace else {"name": plan.name}
    return {**placed, "labels": {**plan.labels, **queue}, "annotations": dict(plan.annotations)}


def run_policy(plan: JobPlan, pods: int) -> Object:
    """The runPolicy: the job's end, queue and scheduling. ``pods``: the number that must start together."""
    policy: Object = {"cleanPodPolicy": plan.clean_pod_policy}
    if plan.ttl_seconds_after_finished is not None:
        policy["ttlSecondsAfterFinished"] = plan.ttl_seconds_after_finished
    if plan.active_deadline_seconds is not None:
        policy["activeDeadlineSeconds"] = plan.active_deadline_seconds
    policy["backoffLimit"] = plan.backoff_limit
    if plan.queue:
        policy["suspend"] = True  # until the queue admits it
    if plan.gang:
        policy["schedulingPolicy"] = _gang(plan, pods)
    return policy


def template(plan: JobPlan, pod: Fragment, container: Object, config_map: str | None) -> Object:
    """A pod template around ``container``."""
    scheduling = {"schedulerName": plan.scheduler_name, "priorityClassName": plan.priority_class_name}
    volumes = [*pod.get("volumes", []), *_volumes(plan, config_map)]
    spec: Object = {name: value for name, value in scheduling.items() if value}
    spec |= {**pod, "containers": [container]}
    if volumes:
        spec["volumes"] = volumes
    return {"metadata": {"labels": dict(plan.labels)}, "spec": fields.in_order("pod", spec)}


class Program(Struct, frozen=True, kw_only=True):
    """The program of one container."""

    container: str  # its name
    command: Argv
    env: Iterable[Fragment]
    ready_port: int | None = None  # the container is ready when a process listens on this port


def container(plan: JobPlan, program: Program, planned: Fragment, config_map: str | None) -> Object:
    """A container; ``planned``: the fields that the plan has for it."""
    entries = [dict(entry) for entry in program.env]
    mounts = [*planned.get("volumeMounts", []), *_mounts(plan, config_map)]
    made = {
        **planned,
        "name": program.container,
        "image": plan.image,
        "command": [env.literal(word) for word in program.command],
        **({"env": entries} if entries else {}),
        **({"volumeMounts": mounts} if mounts else {}),
        **({"startupProbe": _listening(program.ready_port)} if program.ready_port else {}),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }
    return fields.in_order("container", made)


def expectation(plan: JobPlan) -> tuple[Fragment, ...]:
    """The variable with the entrypoint's expectation, and those that would change its check, empty.

    () in a job without the entrypoint.
    """
    if plan.entrypoint_mode == "none":
        return ()
    return env.constants({VARIABLE: plan.expectation.to_json(), **dict.fromkeys(EMPTIED, "")})


def _listening(port: int) -> Object:
    """A startup probe of a port. A readiness probe would add lines to sshd's log as long as the job runs."""
    return {"tcpSocket": {"port": port}, "periodSeconds": 2, "failureThreshold": 60}


def _gang(plan: JobPlan, pods: int) -> Object:
    priority = {"priorityClass": plan.priority_class_name} if plan.priority_class_name else {}
    return {"minAvailable": pods, **priority}


def _volumes(plan: JobPlan, config_map: str | None) -> list[Object]:
    volumes: list[Object] = []
    if plan.shared_memory:
        memory = {"medium": "Memory", "sizeLimit": plan.shared_memory}
        volumes.append({"name": SHARED_MEMORY["name"], "emptyDir": memory})
    if config_map:
        volumes.append({"name": ENTRYPOINT["name"], "configMap": {"name": config_map}})
    return volumes


def _mounts(plan: JobPlan, config_map: str | None) -> list[Object]:
    return [*([SHARED_MEMORY] if plan.shared_memory else []), *([ENTRYPOINT] if config_map else [])]

"""Turns a container into the arguments of docker-py's ``create``. Pure: it needs only dicts, not docker-py."""

from __future__ import annotations

from typing import Any

from k8sel.machine.docker.emit import CAPABILITY, CDI, Container, Mount
from k8sel.planning.plan import Fragment


def arguments(container: Container) -> dict[str, Any]:
    """The arguments that create ``container``."""
    program, *words = container.command
    return {
        "name": container.name,
        "hostname": container.name,
        "image": container.image,
        "entrypoint": [program],
        "command": words,
        "environment": dict(container.env),
        "device_requests": _requests(container),
        "devices": list(container.devices),
        "runtime": container.runtime,
        "shm_size": container.shm_size,
        "ulimits": [{"name": name, "soft": limit, "hard": limit} for name, limit in container.ulimits],
        "mounts": [_mount(mount) for mount in container.mounts],
        "user": container.user,
        "group_add": list(container.group_add),
        "working_dir": container.workdir,
        "network": container.network,
        "init": container.init,
        "labels": dict(container.labels),
        "cap_add": list(container.cap_add),
        "cap_drop": list(container.cap_drop),
        "security_opt": list(container.security_opt),
        "sysctls": dict(container.sysctls),
        "privileged": container.privileged,
        "read_only": container.read_only,
        "nano_cpus": container.nano_cpus,
        "mem_limit": container.memory,
    }


def _requests(container: Container) -> list[Fragment]:
    if container.driver is None:
        return []
    capabilities = [] if container.driver == CDI else [[CAPABILITY]]
    return [{"driver": container.driver, "device_ids": list(container.device_ids), "capabilities": capabilities}]


def _mount(mount: Mount) -> Fragment:
    return {"Type": "bind", "Source": mount.source, "Target": mount.target, "ReadOnly": mount.read_only}

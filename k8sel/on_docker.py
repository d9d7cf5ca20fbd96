"""A plan as containers for this machine: looks here for what the emitter has to know. Needs no daemon."""

from __future__ import annotations

from k8sel import accelerators, brought, here
from k8sel.errors import ContainersError
from k8sel.plan import JobPlan
from k8sel.targets import docker


def containers(plan: JobPlan) -> tuple[docker.Container, ...]:
    """One for each node of ``plan``."""
    row = accelerators.by_name(plan.devices.type)
    host = _host(row, plan)
    return tuple(docker.emit(plan, row, node, host) for node in plan.nodes)


def _host(row: accelerators.Row, plan: JobPlan) -> docker.Host:
    nodes = here.device_nodes(row)
    paths = [*(path for found in nodes.values() for path in found), *row.docker_nodes]
    folder = _entrypoint() if plan.entrypoint_mode == "configMap" else None
    return docker.Host(entrypoint=folder, nodes=nodes, groups=here.groups(paths))


def _entrypoint() -> str:
    try:
        return str(brought.folder())
    except OSError as error:
        raise ContainersError(
            f"k8sel: the entrypoint cannot be laid down for the container: {error}. XDG_CACHE_HOME names another place."
        ) from None

"""Turns a plan into containers for this machine: it collects the emitter's facts here. Needs no daemon."""

from __future__ import annotations

import re

from k8sel.bundle import files
from k8sel.entrypoint import discovery, machine
from k8sel.errors import ContainersError
from k8sel.facts import accelerators
from k8sel.machine import hardware
from k8sel.machine.docker import cdi, emit
from k8sel.planning.plan import JobPlan


def containers(plan: JobPlan, *, by_cdi: bool = False) -> tuple[emit.Container, ...]:
    """The container of each node of ``plan``. ``by_cdi``: expose devices by CDI instead of the row's own way."""
    row = accelerators.by_name(plan.devices.type)
    host = _host(row, plan, by_cdi=by_cdi or row.cdi_alone)
    return tuple(emit.emit(plan, row, node, host) for node in plan.nodes)


def needs(plan: JobPlan, *, by_cdi: bool = False) -> str:
    """The requirements of a machine that exposes the plan's devices, for a hint."""
    row = accelerators.by_name(plan.devices.type)
    if by_cdi or row.cdi_alone:
        return f"{row.docker_cdi_needs}; Docker 25 or newer"
    other = f", or use --cdi with {row.docker_cdi_needs}" if row.docker_cdi else ""
    return f"{row.docker_needs or ''}{other}"


def _host(row: accelerators.Row, plan: JobPlan, *, by_cdi: bool) -> emit.Host:
    root = hardware.ROOT
    nodes, own = hardware.device_nodes(row, root), _own_nodes(row, root)
    paths = [*(path for found in nodes.values() for path in found), *row.docker_nodes]
    return emit.Host(
        entrypoint=_entrypoint() if plan.entrypoint_mode == "configMap" else None,
        nodes=nodes,
        groups={
            path.removeprefix(root): group for path, group in hardware.groups(root + path for path in paths).items()
        },
        order=tuple(int(re.sub(r".*\D", "", node)) for node in own),
        cdi=_cdi(row, plan, [*next(iter(nodes.values()), own)], root) if by_cdi else None,
        root=root,
    )


def _own_nodes(row: accelerators.Row, root: str) -> tuple[str, ...]:
    """The device nodes in the entrypoint's order, if a runtime counts in another order; else ()."""
    if not row.docker_runtime:
        return ()
    found = discovery.find(row.discovery, machine.under(root)).devices
    return tuple(device.node.removeprefix(root) for device in found if device.node)


def _cdi(row: accelerators.Row, plan: JobPlan, nodes: list[str], root: str) -> dict[int, str]:
    if not row.docker_cdi:
        raise ContainersError(
            f"k8sel: the table has no CDI device of type {row.name}. Hint: leave --cdi out"
            if row.is_device
            else f"k8sel: type {row.name} has no devices, so --cdi has no effect. Hint: leave --cdi out"
        )
    wanted = sorted({number for node in plan.nodes for number in emit.exposed(plan, node)})
    return cdi.names(row, wanted, nodes, root)


def _entrypoint() -> str:
    try:
        return str(files.folder())
    except OSError as error:
        raise ContainersError(
            f"k8sel: no entrypoint for the container: {error}. Or set XDG_CACHE_HOME to another folder."
        ) from None

"""Decides which devices a node requests, which its container gets, and which each rank sees. Names no vendor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from k8sel.entrypoint import masks
from k8sel.facts import accelerators
from k8sel.facts.accelerators import Row
from k8sel.facts.platforms import Platform
from k8sel.jobfile.complete import CompleteAccelerator
from k8sel.jobfile.quantity import whole
from k8sel.planning.plan import Devices, Fragment, Rank


def plan(accelerator: CompleteAccelerator, platform: Platform) -> Devices:
    """Returns one node's devices for a defaulted ``accelerator`` on ``platform``."""
    row = accelerators.by_name(accelerator.type)
    if not masks.uses_devices(row.at_start, accelerator.devices):
        return _none(row)
    if not platform.in_container:
        return _some(accelerator, row, positions=accelerator.devices)
    if platform.exposes:
        return _host(accelerator, row, row.exposure_env)
    if accelerator.allocation == "host":
        return _host(accelerator, row, row.host_env or row.exposure_env)
    return _plugin(accelerator, row)


def ranks(devices: Devices, processes: int, isolation: str, first: int) -> tuple[Rank, ...]:
    """Returns the processes of the node whose first rank is ``first``."""
    positions = devices.positions
    each = masks.sharing(accelerators.by_name(devices.type).at_start, positions, processes)
    return tuple(
        Rank(
            rank=first + local,
            local_rank=local,
            devices=masks.share(positions, processes, local, isolation),
            device=next(iter(masks.own(positions, processes, local, isolation, each)), None),
        )
        for local in range(processes)
    )


def exactly(devices: Devices, platform: Platform) -> int | None:
    """Returns the number of devices that a node must have; None if it may have more than the job uses."""
    return None if not platform.in_container or not devices.positions else devices.count


def _none(row: Row) -> Devices:
    rows = accelerators.ROWS.values()
    return Devices(
        type=row.name,
        count=0,
        exposure_env=masks.hidden(each.exposure_hide for each in rows),
        hide_env=accelerators.hide_env(),
        positions=(),
        mask_env=masks.hidden(each.mask_hide for each in rows),
    )


def _plugin(accelerator: CompleteAccelerator, row: Row) -> Devices:
    chosen = _some(accelerator, row, positions=accelerator.devices)
    return replace(chosen, resource_name=accelerator.resource or row.resource_name, count=accelerator.count)


def _host(accelerator: CompleteAccelerator, row: Row, variable: str | None) -> Devices:
    exposed = sorted(accelerator.devices)
    positions = tuple(exposed.index(device) for device in accelerator.devices)
    chosen = _some(accelerator, row, positions=positions)
    return replace(chosen, exposed=tuple(exposed), exposure_env=exposing(variable, exposed))


def exposing(variable: str | None, exposed: Iterable[int]) -> Mapping[str, str]:
    """Returns the ``variable`` that exposes these host devices in a container; nothing if the row has none."""
    return {variable: ",".join(map(str, exposed))} if variable else {}


def _some(accelerator: CompleteAccelerator, row: Row, *, positions: tuple[int, ...]) -> Devices:
    """Returns the fields that do not depend on how the devices enter the container."""
    return Devices(
        type=row.name,
        count=len(positions),
        hide_env=accelerators.hide_env(),
        positions=positions,
        mask_env=masks.variables(row.at_start, accelerator.order, positions, ()),
        product=accelerator.product,
        product_label=row.product_label,
        memory=whole(accelerator.memory),
        memory_label=row.memory_label,
        tolerations=_tolerations(accelerator.resource or row.resource_name),
    )


def _tolerations(resource: str | None) -> tuple[Fragment, ...]:
    """Tolerates the taint that nodes with such devices often have: the resource's name."""
    return ({"key": resource, "operator": "Exists", "effect": "NoSchedule"},) if resource else ()

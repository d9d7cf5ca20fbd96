"""Compares a job's devices with the devices of the cluster's nodes: warnings only. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from k8sel.errors import Problem
from k8sel.planning.plan import Devices
from k8sel.wording import warning

_COUNT = ("spec", "accelerator", "count")
_NODES = ("spec", "nodes")


def warnings(devices: Devices, nodes: int, sizes: Sequence[int] | None) -> tuple[Problem, ...]:
    """Warns about a job of ``nodes``, each with ``devices``. ``sizes``: devices of each node, None if unknown."""
    name, count = devices.resource_name, devices.count
    if not name or not count or sizes is None:
        return ()
    room = sum(size // count for size in sizes)
    if not sizes:
        found = warning(
            _COUNT, f"no node of this cluster has {name}, so the pods would stay Pending", _no_node(devices)
        )
    elif room == 0:
        message = f"no node has {count} {name}, so the pods would stay Pending: the largest has {max(sizes)}"
        found = warning(_COUNT, message, f"set count: {max(sizes)} and more nodes")
    elif room < nodes:
        message = f"the cluster has room for {room} of {nodes} nodes with {count} {name}, so pods would stay Pending"
        found = warning(_NODES, message, f"set nodes: {room}, unless the cluster adds nodes itself")
    elif min(size for size in sizes if size >= count) > count:
        message = f"other pods may share the node: the job requests {count} of its {_range(sizes, count)} {name}"
        hint = "request all of them, or accept any of them: the device plugin chooses"
        found = warning(_COUNT, message, hint)
    else:
        return ()
    return (found,)


def _no_node(devices: Devices) -> str:
    return f"install the device plugin for type {devices.type}, or set `resource` to the name that the cluster uses"


def _range(sizes: Sequence[int], count: int) -> str:
    """The devices of the nodes that are large enough, as "4" or "4 to 8"."""
    fitting = [size for size in sizes if size >= count]
    low, high = min(fitting), max(fitting)
    return str(low) if low == high else f"{low} to {high}"

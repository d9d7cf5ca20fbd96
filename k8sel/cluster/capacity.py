"""What a job asks for, held against what the cluster's nodes have: warnings only. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from k8sel.errors import Problem
from k8sel.planning.plan import Devices
from k8sel.wording import warning

_COUNT = ("spec", "accelerator", "count")
_NODES = ("spec", "nodes")


def warnings(devices: Devices, nodes: int, sizes: Sequence[int] | None) -> tuple[Problem, ...]:
    """For a job of ``nodes`` that each ask for ``devices``; ``sizes``: each node's number, None when not known."""
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
        found = warning(_COUNT, message, f"count: {max(sizes)}, and more nodes")
    elif room < nodes:
        message = f"{nodes} times {count} {name} do not fit this cluster, so pods would stay Pending: {room} would"
        found = warning(_NODES, message, f"nodes: {room}, unless the cluster grows by itself")
    elif min(size for size in sizes if size >= count) > count:
        message = f"asks for {count} of the {_range(sizes, count)} {name} that a node of this cluster has"
        hint = "other pods may share the node, and which devices come is the plugin's choice"
        found = warning(_COUNT, message, hint)
    else:
        return ()
    return (found,)


def _no_node(devices: Devices) -> str:
    return f"is the device plugin of type {devices.type} installed? `resource` says another name for it"


def _range(sizes: Sequence[int], count: int) -> str:
    """The sizes of the nodes that are large enough."""
    fitting = [size for size in sizes if size >= count]
    low, high = min(fitting), max(fitting)
    return str(low) if low == high else f"{low} to {high}"

"""Machines as the vendors' drivers lay them out: four devices, numbered here by PCI address.

No other numbering that a machine has runs the same way, where the vendor has one: who mixes two up is found out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from entrypoint.machines import Box, Gpu, uuid
from entrypoint.trees import Card, drm, gaudi, kfd

DEVICES = (0, 1, 2, 3)
BUSES = ("1a", "3b", "86", "c1")
MINORS = (2, 0, 3, 1)  # the number in the name of each device's node
HSA = (1, 3, 0, 2)  # the devices as ROCm lists them
MODULES = (4, 5, 6, 7)  # of Gaudis: half a machine


@dataclass(frozen=True)
class Host:
    """One vendor's machine."""

    lay_out: Callable[[Box, Collection[int]], None]  # of the devices in the second, the nodes are in the box
    nodes: tuple[str, ...] = ()  # each device's; empty where it has none
    numbers: tuple[int, ...] = DEVICES  # what the vendor's container runtime calls each
    named: tuple[int, ...] = DEVICES  # what a job file with `allocation: host` calls each


def cuda(box: Box, held: Collection[int]) -> None:
    """All are in /proc, whoever has them: so it is with CDI."""
    box.gpus(*(Gpu(MINORS[n], f"0000:{BUSES[n]}:00.0", uuid(n), node=n in held) for n in DEVICES))


def _dri(box: Box, held: Collection[int], vendor: str, device: str) -> None:
    """Render nodes; in /sys, each leads to its device by a link, as the kernel has it."""
    for n in DEVICES:
        box.write(f"sys/devices/0000:{BUSES[n]}:00.0/numa_node", "0\n")
        link = box.root / f"sys/class/drm/renderD{128 + MINORS[n]}/device"
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(box.root / f"sys/devices/0000:{BUSES[n]}:00.0")
    drm(box, *(Card(128 + MINORS[n], BUSES[n], vendor, device, node=n in held) for n in DEVICES))


def xpu(box: Box, held: Collection[int]) -> None:
    _dri(box, held, "0x8086", "0x0bd5")


def rocm(box: Box, held: Collection[int]) -> None:
    _dri(box, held, "0x1002", "0x74a1")
    kfd(box, (0, "0"), *((128 + MINORS[n], f"{n + 1}" if n in held else "") for n in HSA), control=bool(held))


def hpu(box: Box, held: Collection[int]) -> None:
    gaudi(box, *((MINORS[n], MODULES[n]) for n in held))


def numbered(name: str) -> Host:
    """Makes devices of which only the numbers of their nodes are known."""

    def lay_out(box: Box, held: Collection[int]) -> None:
        for n in held:
            box.write(f"dev/{name}{n}", "")

    return Host(lay_out, tuple(f"/dev/{name}{n}" for n in DEVICES))


def render_nodes() -> tuple[str, ...]:
    return tuple(f"/dev/dri/renderD{128 + minor}" for minor in MINORS)

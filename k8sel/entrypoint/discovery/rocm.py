"""AMD GPUs: the kernel's KFD topology, of which those count whose render node is in this container.

HSA's numbers, and HIP's after them, are the order of the topology's nodes: ROCR-Runtime libhsakmt/src/topology.c.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.discovery import Device, Found, drm, opened
from k8sel.entrypoint.machine import Machine, names, read, whole

_TOPOLOGY = "class/kfd/kfd/topology/nodes"
_OWN_MEMORY = (1, 2)  # frame buffer, visible to the CPU or not: ROCR-Runtime libhsakmt/include/hsakmt/hsakmttypes.h


def find(machine: Machine) -> Found:
    """The GPUs in PCI order, each with HIP's number for it."""
    if "kfd" not in names(machine.dev):
        return Found((), "KFD", notes=("/dev/kfd is not here",), named=False)
    tried = opened.tried(nodes(machine))
    found = _minors(machine)
    minors = [minor for minor in found if drm.path(machine, minor) not in tried.refused]
    numbered = [
        Device(drm.pci(machine, minor), number=str(number), memory=_memory(found[minor]))
        for number, minor in enumerate(minors)
    ]
    devices, unknown = drm.in_pci_order(numbered)
    return Found(devices, "KFD", notes=(*tried.notes, *unknown), named=False)


def nodes(machine: Machine) -> list[str]:
    """Render nodes of AMD GPUs."""
    return [drm.path(machine, minor) for minor in _minors(machine)]


def _minors(machine: Machine) -> dict[int, str]:
    """Render minors in HSA's order, and each one's folder. ``gpu_id`` is 0 for a CPU, not readable for others' GPUs."""
    numbers = sorted(int(name) for name in names(machine.sys, _TOPOLOGY) if name.isdecimal())
    here, found = drm.minors(machine), {}
    for number in numbers:
        folder = os.path.join(machine.sys, _TOPOLOGY, str(number))
        minor = _property(folder, "drm_render_minor")
        if read(folder, "gpu_id") not in ("", "0") and minor in here:
            found[minor] = folder
    return found


def _memory(folder: str) -> int:
    """Bytes of the node's own memory: the partitions of one GPU have their parts. 0: the kernel does not say."""
    banks = [os.path.join(folder, "mem_banks", name) for name in names(folder, "mem_banks")]
    return sum(_property(bank, "size_in_bytes") for bank in banks if _property(bank, "heap_type") in _OWN_MEMORY)


def _property(folder: str, name: str) -> int:
    """A number of the file ``properties``; 0 where it is not said, as for what a CPU does not have."""
    pairs = (line.split() for line in read(folder, "properties").splitlines())
    return whole(next((pair[1] for pair in pairs if pair[:1] == [name] and len(pair) == 2), "")) or 0

"""AMD GPUs: those in the kernel's KFD topology whose render node is in this container.

HSA and HIP number the GPUs in the order of the topology's nodes: ROCm/rocm-systems
projects/rocr-runtime/libhsakmt/src/topology.c.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.discovery import Device, Found, drm, opened
from k8sel.entrypoint.machine import Machine, names, numbers, read, whole

_TOPOLOGY = "class/kfd/kfd/topology/nodes"
# ROCm/rocm-systems projects/rocr-runtime/libhsakmt/src/topology.c, topology_sysfs_check_node_supported
_NONE = "ROCm finds no GPU if it cannot open one of its nodes"
_OWN_MEMORY = (1, 2)  # frame buffer, visible to the CPU or not: ROCR-Runtime libhsakmt/include/hsakmt/hsakmttypes.h


def find(machine: Machine) -> Found:
    """Finds the GPUs in PCI order, each with its HIP number."""
    if "kfd" not in names(machine.dev):
        return Found((), "KFD", notes=("/dev/kfd is not found",), named=False)
    control = os.path.join(machine.dev, "kfd")
    tried = opened.tried([control, *nodes(machine)])
    if tried.failed or control in tried.refused:
        return Found((), "KFD", notes=(*tried.notes, _NONE), named=False)
    found = _minors(machine)
    minors = [minor for minor in found if drm.path(machine, minor) not in tried.refused]
    numbered = [
        Device(drm.pci(machine, minor), number=str(number), memory=_memory(found[minor]))
        for number, minor in enumerate(minors)
    ]
    devices, unknown = drm.in_pci_order(numbered)
    return Found(devices, "KFD", notes=(*tried.notes, *unknown), named=False)


def nodes(machine: Machine) -> list[str]:
    """Lists the render nodes of AMD GPUs."""
    return [drm.path(machine, minor) for minor in _minors(machine)]


def _minors(machine: Machine) -> dict[int, str]:
    """Maps render minors, in HSA's order, to folders. ``gpu_id`` is 0 for a CPU; that of others' GPUs is unreadable."""
    here, found = drm.minors(machine), {}
    for number in numbers("", machine.sys, _TOPOLOGY):
        folder = os.path.join(machine.sys, _TOPOLOGY, str(number))
        minor = _property(folder, "drm_render_minor")
        if read(folder, "gpu_id") not in ("", "0") and minor in here:
            found[minor] = folder
    return found


def _memory(folder: str) -> int:
    """Returns the bytes of the node's own memory: each partition of a GPU has its own. 0: not known."""
    banks = [os.path.join(folder, "mem_banks", name) for name in names(folder, "mem_banks")]
    return sum(_property(bank, "size_in_bytes") for bank in banks if _property(bank, "heap_type") in _OWN_MEMORY)


def _property(folder: str, name: str) -> int:
    """Reads a number from the file ``properties``; 0 if it is missing, as a GPU's properties are for a CPU."""
    pairs = (line.split() for line in read(folder, "properties").splitlines())
    return whole(next((pair[1] for pair in pairs if pair[:1] == [name] and len(pair) == 2), "")) or 0

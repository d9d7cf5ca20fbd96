"""AMD GPUs: the kernel's KFD topology, of which those count whose render node is in this container.

HSA's numbers, and HIP's after them, are the order of the topology's nodes: ROCR-Runtime libhsakmt/src/topology.c.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.discovery import Device, Found, drm, opened
from k8sel.entrypoint.machine import Machine, names, read

_TOPOLOGY = "class/kfd/kfd/topology/nodes"


def find(machine: Machine) -> Found:
    """The GPUs in PCI order, each with HIP's number for it."""
    if "kfd" not in names(machine.dev):
        return Found((), "KFD", notes=("/dev/kfd is not in this container",), named=False)
    tried = opened.tried(nodes(machine))
    minors = [minor for minor in _minors(machine) if drm.path(machine, minor) not in tried.refused]
    numbered = [Device(drm.pci(machine, minor), number=str(number)) for number, minor in enumerate(minors)]
    devices, unknown = drm.in_pci_order(numbered)
    return Found(devices, "KFD", notes=(*tried.notes, *unknown), named=False)


def nodes(machine: Machine) -> list[str]:
    """Render nodes of AMD GPUs."""
    return [drm.path(machine, minor) for minor in _minors(machine)]


def _minors(machine: Machine) -> list[int]:
    """Render minors in HSA's order. A node's ``gpu_id`` is 0 for a CPU, and not readable for a GPU of others."""
    numbers = sorted(int(name) for name in names(machine.sys, _TOPOLOGY) if name.isdecimal())
    here, found = drm.minors(machine), []
    for number in numbers:
        folder = os.path.join(machine.sys, _TOPOLOGY, str(number))
        pairs = (line.split() for line in read(folder, "properties").splitlines())
        minor = next((pair[1] for pair in pairs if pair[:1] == ["drm_render_minor"] and len(pair) == 2), "")
        if read(folder, "gpu_id") not in ("", "0") and minor.isdecimal() and int(minor) in here:
            found.append(int(minor))
    return found

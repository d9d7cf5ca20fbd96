"""Google TPUs: /dev/accel<N>, or a group of VFIO's for each chip, /dev/vfio/<N>: newer machines have those.

As ray-project/ray python/ray/_private/accelerators/tpu.py finds them. Which chip is which is libtpu's: positions are
taken to count the nodes.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.discovery import Device, Found, normal_pci
from k8sel.entrypoint.machine import Machine, names, read

_VENDOR = "0x1ae0"  # jax-ml/jax jax/_src/hardware_utils.py


def find(machine: Machine) -> Found:
    """The chips. They are not opened: one process alone can open a chip."""
    chips = nodes(machine)
    devices = tuple(Device(_pci(machine, path)) for path in chips)
    how = "/dev/vfio" if chips and "/vfio/" in chips[0] else "/dev/accel<N>"
    return Found(devices, how, named=False)


def nodes(machine: Machine) -> list[str]:
    """Device nodes of chips; VFIO has groups of other vendors' devices, too."""
    plain = [os.path.join(machine.dev, f"accel{number}") for number in _numbers("accel", names(machine.dev))]
    groups = [os.path.join(machine.dev, "vfio", str(number)) for number in _numbers("", names(machine.dev, "vfio"))]
    return plain or [path for path in groups if _pci(machine, path)]


def _numbers(start: str, found: list[str]) -> list[int]:
    ends = (name[len(start) :] for name in found if name.startswith(start))
    return sorted(int(end) for end in ends if end.isdecimal())


def _pci(machine: Machine, path: str) -> str:
    """The address of the chip in a group of VFIO's; empty for others."""
    group = os.path.join(machine.sys, "kernel/iommu_groups", os.path.basename(path), "devices")
    for address in names(group):
        try:
            if read(group, address, "vendor") == _VENDOR:
                return normal_pci(address)
        except ValueError:
            continue
    return ""

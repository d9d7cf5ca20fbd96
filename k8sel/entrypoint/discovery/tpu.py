"""Google TPUs: /dev/accel<N>, or a group of VFIO's for each chip, /dev/vfio/<N>: newer machines have those.

ray-project/ray python/ray/_private/accelerators/tpu.py finds them in the same way. libtpu numbers the chips itself;
here positions count the nodes.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.discovery import Device, Found, known_pci
from k8sel.entrypoint.machine import Machine, names, numbers, read

_VENDOR = "0x1ae0"  # jax-ml/jax jax/_src/hardware_utils.py
_DOUBLED = "0x0076"  # TPU7x, as above; docs.cloud.google.com/tpu/docs/tpu7x: two devices in each chip
_TWO = "each TPU7x chip has two cores, which a framework shows as two devices; k8sel counts device nodes"


def find(machine: Machine) -> Found:
    """Finds the chips. Does not open them: only one process can open a chip."""
    chips = nodes(machine)
    devices = tuple(Device(_pci(machine, path)) for path in chips)
    how = "/dev/vfio" if chips and "/vfio/" in chips[0] else "/dev/accel<N>"
    doubled = any(read(machine.sys, "bus/pci/devices", chip.pci, "device") == _DOUBLED for chip in devices if chip.pci)
    return Found(devices, how, notes=(_TWO,) if doubled else (), named=False)


def nodes(machine: Machine) -> list[str]:
    """Lists the device nodes of chips. VFIO also has groups of other vendors' devices."""
    plain = [os.path.join(machine.dev, f"accel{number}") for number in numbers("accel", machine.dev)]
    groups = [os.path.join(machine.dev, "vfio", str(number)) for number in numbers("", machine.dev, "vfio")]
    return plain or [path for path in groups if _pci(machine, path)]


def _pci(machine: Machine, path: str) -> str:
    """Returns the address of the chip in a VFIO group; empty if the group has no chip."""
    group = os.path.join(machine.sys, "kernel/iommu_groups", os.path.basename(path), "devices")
    chips = (known_pci(address) for address in names(group) if read(group, address, "vendor") == _VENDOR)
    return next((chip for chip in chips if chip), "")

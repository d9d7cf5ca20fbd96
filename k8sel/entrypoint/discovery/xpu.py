"""Intel GPUs: render nodes whose device /sys says is Intel's, in PCI order. Drivers i915 and xe look the same here."""

from __future__ import annotations

from k8sel.entrypoint.discovery import Device, Found, drm, opened
from k8sel.entrypoint.machine import Machine, names

_VENDOR = "0x8086"
# ZE_AFFINITY_MASK counts what ZE_FLAT_DEVICE_HIERARCHY says: level-zero-spec scripts/core/PROG.rst, "Affinity Mask".
_TILES = "cards are counted; a driver with ZE_FLAT_DEVICE_HIERARCHY=FLAT (Max series: unless set) counts tiles"
_KINDS = "GPUs of several kinds (PCI ids {}): PyTorch leaves integrated ones out beside others, and its numbers shift"


def find(machine: Machine) -> Found:
    """The GPUs by PCI address, as the driver counts with ZE_ENABLE_PCI_ID_DEVICE_ORDER=1."""
    if "dxg" in names(machine.dev) and not drm.minors(machine):
        return Found()  # WSL: one node for all, and no /sys
    tried = opened.tried(nodes(machine))
    minors = [minor for minor in _minors(machine) if drm.path(machine, minor) not in tried.refused]
    devices, unknown = drm.in_pci_order([Device(drm.pci(machine, minor)) for minor in minors])
    notes = (*tried.notes, *unknown, *_doubts(machine, minors))
    return Found(devices, "/dev/dri", notes=notes, named=False)


def _doubts(machine: Machine, minors: list[int]) -> list[str]:
    """What /sys leaves open of these GPUs, and of render nodes beside them."""
    silent = [f"renderD{minor}" for minor in drm.minors(machine) if not drm.sysfs(machine, minor, "vendor")]
    kinds = sorted({drm.sysfs(machine, minor, "device") for minor in minors})
    return [
        *([f"/sys says nothing of {', '.join(silent)}"] if silent else []),
        *([_KINDS.format(", ".join(kinds))] if len(kinds) > 1 else []),
        *([_TILES] if minors else []),
    ]


def nodes(machine: Machine) -> list[str]:
    """Render nodes of Intel GPUs."""
    return [drm.path(machine, minor) for minor in _minors(machine)]


def _minors(machine: Machine) -> list[int]:
    return [minor for minor in drm.minors(machine) if drm.sysfs(machine, minor, "vendor") == _VENDOR]

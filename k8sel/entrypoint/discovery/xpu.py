"""Intel GPUs: render nodes whose device /sys says is Intel's, in PCI order, by i915 and xe.

A card may have tiles, and ZE_FLAT_DEVICE_HIERARCHY decides whether the driver counts cards or tiles. If nothing sets
it, its default depends on the driver's version and the card: intel/compute-runtime shared/source/execution_environment/
execution_environment.cpp, and oneapi-src/level-zero-spec scripts/core/PROG.rst. So the entrypoint always writes it.
"""

from __future__ import annotations

from k8sel.entrypoint.discovery import Device, Found, drm, opened
from k8sel.entrypoint.machine import Machine, names

_VENDOR = "0x8086"
_HIERARCHY, _CARDS = "ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE"
_TILES = ("FLAT", "COMBINED")
_KINDS = "GPUs of several kinds (PCI ids {}): PyTorch ignores integrated ones beside others, which shifts its numbers"
_DIGITS = 20  # of a 64-bit number


def find(machine: Machine) -> Found:
    """Finds the GPUs, or their tiles, by PCI address: the driver's order with ZE_ENABLE_PCI_ID_DEVICE_ORDER=1."""
    if "dxg" in names(machine.dev) and not drm.minors(machine):
        return Found()  # WSL: one node for all, and no /sys
    tried = opened.tried(nodes(machine))
    minors = [minor for minor in _minors(machine) if drm.path(machine, minor) not in tried.refused]
    given = machine.setting(_HIERARCHY)
    mode = given if given in _TILES else _CARDS
    devices, unknown = drm.in_pci_order([device for minor in minors for device in _devices(machine, minor, mode)])
    notes = (*tried.notes, *unknown, *_uncertain(machine, minors), *_counted(machine, minors, given))
    return Found(devices, "/dev/dri", notes=notes, named=False, counting={_HIERARCHY: mode})


def _devices(machine: Machine, minor: int, mode: str) -> list[Device]:
    """Returns a card as one device, or as one device for each of its tiles."""
    pci, tiles = drm.pci(machine, minor), _memory_of_tiles(machine, minor)
    if mode == _CARDS or len(tiles) < 2:
        return [Device(pci, memory=sum(tiles))]
    return [Device(pci, memory=memory, part=f"tile {number}") for number, memory in enumerate(tiles)]


def _memory_of_tiles(machine: Machine, minor: int) -> list[int]:
    """Returns the bytes of each tile of a card, 0 if unknown; nothing if the kernel does not list the tiles.

    xe has tile<N>/physical_vram_size_bytes (Linux, drivers/gpu/drm/xe/xe_tile_sysfs.c); Intel's own i915, for cards of
    tiles, gt/gt<N>/addr_range, and for all with memory lmem_total_bytes (intel/intel-device-plugins-for-kubernetes,
    cmd/gpu_nfdhook/labeler.go). Linux' i915 has none of it, and no such cards.
    """
    tiles = drm.numbered(machine, minor, "tile")
    if tiles:
        return [_size(drm.sysfs(machine, minor, tile, "physical_vram_size_bytes")) for tile in tiles]
    for card in drm.numbered(machine, minor, "drm", "card"):
        tiles = drm.numbered(machine, minor, "drm", card, "gt", "gt")
        sizes = [text for gt in tiles if (text := drm.sysfs(machine, minor, "drm", card, "gt", gt, "addr_range"))]
        sizes = sizes or [text for text in [drm.sysfs(machine, minor, "drm", card, "lmem_total_bytes")] if text]
        return [_size(text) for text in sizes]
    return []


def _size(text: str) -> int:
    """Reads a size: decimal from xe, hexadecimal from i915; 0 for any other text."""
    try:
        return max(int(text, 0), 0) if len(text) <= _DIGITS else 0
    except ValueError:
        return 0


def _counted(machine: Machine, minors: list[int], given: str) -> list[str]:
    """Notes that positions count cards, or tiles, if a card has several tiles."""
    tiles = [len(_memory_of_tiles(machine, minor)) for minor in minors]
    if given in _TILES:
        unread = [f"renderD{minor}" for minor, number in zip(minors, tiles) if not number]  # noqa: B905  (3.10's)
        unknown = [f"/sys has no number of tiles of {', '.join(unread)}: one is assumed"] if unread else []
        note = f"tiles are counted, since {_HIERARCHY} is {given}: {_CARDS} counts cards"
        return [*unknown, *([note] if max(tiles, default=0) > 1 else [])]
    if given not in ("", _CARDS):
        return [
            f"{_HIERARCHY}={given} is none of {_CARDS}, {', '.join(_TILES)}: {_CARDS} is written, cards are counted"
        ]
    if not given and max(tiles, default=0) > 1:
        return [f"cards of {max(tiles)} tiles: {_CARDS} is written, cards are counted; {_HIERARCHY}=FLAT counts tiles"]
    return []


def _uncertain(machine: Machine, minors: list[int]) -> list[str]:
    """Notes render nodes of unknown vendors, and GPUs of several kinds."""
    unread = [f"renderD{minor}" for minor in drm.minors(machine) if not drm.sysfs(machine, minor, "vendor")]
    kinds = sorted({drm.sysfs(machine, minor, "device") for minor in minors})
    return [
        *([f"/sys has no vendor of {', '.join(unread)}"] if unread else []),
        *([_KINDS.format(", ".join(kinds))] if len(kinds) > 1 else []),
    ]


def nodes(machine: Machine) -> list[str]:
    """Lists the render nodes of Intel GPUs."""
    return [drm.path(machine, minor) for minor in _minors(machine)]


def _minors(machine: Machine) -> list[int]:
    return [minor for minor in drm.minors(machine) if drm.sysfs(machine, minor, "vendor") == _VENDOR]

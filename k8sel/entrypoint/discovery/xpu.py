"""Intel GPUs: render nodes whose device /sys says is Intel's, in PCI order, by i915 and xe.

A card may have tiles, and ZE_FLAT_DEVICE_HIERARCHY decides whether the driver counts cards or tiles. If nothing sets
it, its default depends on the driver's version and the card: intel/compute-runtime shared/source/execution_environment/
execution_environment.cpp, and oneapi-src/level-zero-spec scripts/core/PROG.rst. So the entrypoint always writes it.
"""

from __future__ import annotations

from k8sel.entrypoint import tables
from k8sel.entrypoint.discovery import Device, Found, drm, opened
from k8sel.entrypoint.machine import Machine, names

_VENDOR = "0x8086"
_HIERARCHY, _CARDS = "ZE_FLAT_DEVICE_HIERARCHY", "COMPOSITE"
_TILES = ("FLAT", "COMBINED")
# intel/compute-runtime shared/source/device/device.cpp, groupDevices; pytorch/pytorch#144378
_WHY = "each with a Level Zero driver of its own, and PyTorch uses one driver"
_ONE = "a process can use one family only"
# intel/compute-runtime shared/source/os_interface/linux/drm_neo.cpp, discoverDevices, and pci_path.cpp, getPciPath
_BY_PATH, _RENDER, _ADDRESS = "by-path", "-render", 12
_RENDER_NODES = range(128, 192)
_DIGITS = 20  # of a 64-bit number


def find(machine: Machine) -> Found:
    """Finds the GPUs, or their tiles, by PCI address: the driver's order with ZE_ENABLE_PCI_ID_DEVICE_ORDER=1."""
    if "dxg" in names(machine.dev) and not drm.minors(machine):
        return Found()  # WSL: one node for all, and no /sys
    linked, looked = _linked(machine), _looked_at(machine)
    tried = opened.tried([drm.path(machine, minor) for minor in looked])
    minors = [minor for minor in looked if drm.path(machine, minor) not in tried.refused]
    given, families = machine.setting(_HIERARCHY), _families(machine, minors)
    mode = given if given in _TILES else _CARDS
    cards = [device for minor in minors for device in _devices(machine, minor, mode, families[minor])]
    devices, unknown = drm.in_pci_order(cards, None if linked else _ADDRESS)
    uncertain = (*_unread(machine), *_unlinked(machine, looked), *_of_families(machine, families))
    notes = (*tried.notes, *unknown, *uncertain, *_counted(machine, minors, given))
    return Found(devices, "/dev/dri", notes=notes, named=False, families=_WHY, counting={_HIERARCHY: mode})


def _linked(machine: Machine) -> list[str]:
    """Lists the PCI address of each entry in /dev/dri/by-path."""
    return [_address(name) for name in names(machine.dev, "dri", _BY_PATH) if name[:1] != "."]


def _address(name: str) -> str:
    """Returns the PCI address in the name of a link to a render node; empty if the driver reads none."""
    start = name[: -len(_RENDER)] if name.endswith(_RENDER) else ""
    return start[-_ADDRESS:] if start[-_ADDRESS - 1 : -_ADDRESS] == "-" else ""


def _looked_at(machine: Machine) -> list[int]:
    """Lists the render nodes where the driver looks: those in by-path, if it has any entry, else the usual numbers."""
    linked = _linked(machine)
    if linked:
        return [minor for minor in _minors(machine) if drm.pci(machine, minor) in {*linked} - {""}]
    return [minor for minor in _minors(machine) if minor in _RENDER_NODES]


def _families(machine: Machine, minors: list[int]) -> dict[int, str]:
    """Maps each GPU to its product family; all to nothing if they have the same PCI id."""
    ids = {minor: drm.sysfs(machine, minor, "device") for minor in minors}
    known = tables.families() if len({*ids.values()}) > 1 else {}
    return {minor: known.get(pci[2:], "") for minor, pci in ids.items()}


def _devices(machine: Machine, minor: int, mode: str, family: str) -> list[Device]:
    """Returns a card as one device, or as one device for each of its tiles."""
    pci, tiles = drm.pci(machine, minor), _memory_of_tiles(machine, minor)
    if mode == _CARDS or len(tiles) < 2:
        return [Device(pci, memory=sum(tiles), family=family)]
    return [Device(pci, memory=memory, part=f"tile {number}", family=family) for number, memory in enumerate(tiles)]


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


def _unread(machine: Machine) -> list[str]:
    """Notes render nodes of unknown vendors."""
    unread = [f"renderD{minor}" for minor in drm.minors(machine) if not drm.sysfs(machine, minor, "vendor")]
    return [f"/sys has no vendor of {', '.join(unread)}"] if unread else []


def _unlinked(machine: Machine, looked: list[int]) -> list[str]:
    """Notes render nodes that the driver leaves out."""
    left = [f"renderD{minor}" for minor in _minors(machine) if minor not in looked]
    if not left:
        return []
    where = f"in /dev/dri/{_BY_PATH}" if _linked(machine) else "at renderD128 to renderD191"
    return [f"{', '.join(left)} is not used: the driver looks only {where}"]


def _of_families(machine: Machine, families: dict[int, str]) -> list[str]:
    """Notes GPUs of several product families, and those whose family is not known beside others."""
    ids = sorted({(drm.sysfs(machine, minor, "device"), family) for minor, family in families.items()})
    unknown = [pci for pci, family in ids if not family]
    several = ", ".join(f"{pci} {family}" for pci, family in ids if family)
    return [
        *([f"GPUs of several product families ({several}): {_ONE}"] if len({*families.values()} - {""}) > 1 else []),
        *([f"the product family of PCI id {', '.join(unknown)} is not known: {_ONE}"] if unknown and ids[1:] else []),
    ]


def nodes(machine: Machine) -> list[str]:
    """Lists the render nodes of Intel GPUs."""
    return [drm.path(machine, minor) for minor in _minors(machine)]


def _minors(machine: Machine) -> list[int]:
    return [minor for minor in drm.minors(machine) if drm.sysfs(machine, minor, "vendor") == _VENDOR]

"""Finds the devices of a vendor, by a small module that the accelerator table's ``discovery`` names.

Such a module has ``find(machine)``, which finds this node's devices, and ``nodes(machine)``, which lists its device
nodes. Further words in the table's ``discovery`` are further arguments of both. The rest of the entrypoint names no
vendor.
"""

from __future__ import annotations

from types import ModuleType

from k8sel.entrypoint.lean import TYPE_CHECKING, record, replace
from k8sel.entrypoint.machine import Machine, read, whole

if TYPE_CHECKING:
    from typing import Mapping


@record(frozen=True)
class Device:
    """One device, or one part of a card, that a process here can use. Unknown fields are empty."""

    pci: str = ""  # dddd:bb:dd.f, lower case
    uuid: str = ""
    name: str = ""  # in the driver's spelling
    number: str = ""  # its number in the vendor's mask; empty: its position
    node: str = ""  # its device node, if the nodes have another order
    memory: int = 0  # bytes in total; 0: not known
    part: str = ""  # the part of the card at that address; empty: the whole card
    family: str = ""  # its product family; empty: not known, or the same for all


@record(frozen=True)
class Found:
    """The devices of a node in the order of their positions, and how they were found. PCI order if it is known."""

    devices: tuple[Device, ...] = ()
    how: str = ""  # NVML, /proc/..., device nodes; empty: this version cannot find them
    driver: str = ""
    notes: tuple[str, ...] = ()  # why a better way failed, which devices were left out
    runtime: str = ""  # the newest version of the vendor's API that the driver here runs
    named: bool = True  # False: this way has no product names
    alone: str = ""  # the reason why one process cannot use several of the parts; empty: it can
    families: str = ""  # the reason why one process cannot use devices of several families
    counting: Mapping[str, str] = {}  # variables for this order of the devices; set with the mask
    library: Mapping[str, str] = {}  # path and sha256 of the vendor's library that answered; empty: none was asked


def with_notes(fact: str, found: Found, hint: str = "") -> str:
    """Returns ``fact: hint``; if the search has notes, the fact, the notes and the hint each have a line."""
    parts = [part for part in (fact, "; ".join(found.notes), hint) if part]
    return ("\n  " if found.notes else ": ").join(parts)


def find(kind: str, machine: Machine, environ: Mapping[str, str] | None = None) -> Found:
    """Finds this node's devices; ``how`` is empty if this version has no module for ``kind``.

    ``environ``: variables that change how the vendor's driver counts.
    """
    module, words = _module(kind)
    found: Found = module.find(replace(machine, environ=environ), *words) if module else Found()
    return found


def nodes(kind: str, machine: Machine) -> list[str]:
    """Returns the paths of the device nodes of ``kind`` in this container."""
    module, words = _module(kind)
    paths: list[str] = module.nodes(machine, *words) if module else []
    return paths


def numa_node(device: Device, machine: Machine) -> int | None:
    """Returns the device's NUMA node; None if the kernel does not know it (it then writes -1)."""
    return whole(read(machine.sys, "bus/pci/devices", device.pci, "numa_node")) if device.pci else None


def normal_pci(address: str) -> str:
    """Returns a PCI address as the kernel writes it: ``00000000:3B:00.0`` is ``0000:3b:00.0``."""
    domain, bus, device, function = pci_order(address)
    return f"{domain:04x}:{bus:02x}:{device:02x}.{function:x}"


def known_pci(address: str) -> str:
    """Returns a PCI address as the kernel writes it; empty for any other text."""
    try:
        return normal_pci(address)
    except ValueError:
        return ""


def pci_order(address: str) -> tuple[int, ...]:
    """Returns the sort key of a PCI address: sorted as text, domain 10000 comes before 2000. Raises ValueError."""
    try:
        domain, bus, device, function = (int(part, 16) for part in address.replace(".", ":").split(":"))
    except ValueError:
        raise ValueError(f"{address!r} is no PCI address") from None
    return domain, bus, device, function


def _module(kind: str) -> tuple[ModuleType | None, list[str]]:
    first, *words = kind.split()
    name = f"{__name__}.{first}"
    try:
        module: ModuleType = __import__(name, fromlist=["find"])
    except ModuleNotFoundError as error:
        if error.name != name:
            raise
        return None, words
    return module, words

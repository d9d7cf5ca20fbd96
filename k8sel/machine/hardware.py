"""The sockets, NUMA nodes and devices of this machine, for jobs that start on it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from msgspec import Struct

from k8sel.entrypoint import cpus, discovery, machine
from k8sel.entrypoint.discovery import Found
from k8sel.entrypoint.machine import Machine
from k8sel.facts.accelerators import ROWS, Row, without_devices

ROOT = ""  # a test sets the folder of a laid-out machine; no variable of the shell does


class Seen(Struct, frozen=True, kw_only=True):
    """One row of the table, and its devices on this machine."""

    row: Row
    found: Found
    numa: tuple[int | None, ...]  # the NUMA node of each device; None: unknown to the kernel


def this() -> Machine:
    """This machine."""
    return machine.under(ROOT)


def find(row: Row) -> Found:
    """Finds this machine's devices of ``row``, as the entrypoint does."""
    return discovery.find(row.discovery, this(), os.environ)


def look(row: Row) -> Seen:
    """Finds this machine's devices of ``row`` with their NUMA nodes."""
    found, here = find(row), this()
    return Seen(row=row, found=found, numa=tuple(discovery.numa_node(device, here) for device in found.devices))


def kinds() -> dict[str, Found]:
    """The devices of this machine by the name of their row; rows without devices are left out."""
    looked = ((row.name, find(row)) for row in ROWS.values())
    return {name: found for name, found in looked if found.devices}


def accelerator() -> tuple[str, str]:
    """The type that `auto` means here, and the reason: the first row with devices here, or the row without any."""
    first, *others = [(name, _counted(name, found)) for name, found in kinds().items()] or [_without()]
    beside = f"; {', '.join(why for _, why in others)} would be another choice" if others else ""
    return first[0], first[1] + beside


def _counted(name: str, found: Found) -> str:
    number = len(found.devices)
    return f"{number} {name} device{'' if number == 1 else 's'} by {found.how}"


def _without() -> tuple[str, str]:
    return without_devices().name, "no device of any kind is here"


def masks(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables in ``environ`` that select or reorder devices."""
    names = sorted({name for row in ROWS.values() for name in row.owned_env})
    return {name: environ[name] for name in names if name in environ}


def sockets() -> int:
    """The number of CPU sockets with a CPU that this process may use; 1 if unknown."""
    folder = f"{this().sys}/devices/system/cpu"
    packages = {machine.read(folder, f"cpu{cpu}/topology/physical_package_id") for cpu in _cpus()}
    return len(packages - {""}) or 1


def numa_nodes() -> int:
    """The number of NUMA nodes with a CPU that this process may use (some have only memory); 1 if unknown."""
    usable, lists = _cpus(), Path(this().sys, "devices/system/node").glob("node[0-9]*/cpulist")
    return sum(any(usable & set(part) for part in cpus.listed(machine.read(str(each)))) for each in lists) or 1


def _cpus() -> set[int]:
    """The CPUs that this process may use. Only Linux has such a list; elsewhere, all CPUs."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def device_nodes(row: Row, root: str = "") -> dict[str, tuple[str, ...]]:
    """Each pattern of the row with a ``*``, and the machine's device nodes that match, in order of PCI address.

    The kernel's own numbers follow the start of drivers, so they are no order. ``root``: the folder of a test machine.
    """
    patterns = [pattern for pattern in row.docker_nodes if "*" in pattern]
    return {pattern: tuple(_of_vendor(row, pattern, root)) for pattern in patterns}


def groups(paths: Iterable[str]) -> dict[str, int]:
    """The group of each existing device node, except group root."""
    found = {path: Path(path).stat().st_gid for path in paths if Path(path).exists()}
    return {path: group for path, group in found.items() if group}


def _of_vendor(row: Row, pattern: str, root: str) -> list[str]:
    placed = []
    for node in Path(root + "/").glob(pattern[1:]):
        device = f"{root}/sys/class/drm/{node.name}/device"
        if machine.read(device, "vendor") == row.docker_pci_vendor:
            placed.append((_address(device), int(re.sub(r"\D", "", node.name)), str(node).removeprefix(root)))
    return [node for *_, node in sorted(placed)]


def _address(device: str) -> tuple[int, ...]:
    """The device's PCI address, as the kernel has it. Partitions of one device share it."""
    pairs = (line.partition("=") for line in machine.read(device, "uevent").splitlines())
    address = next((value for key, _, value in pairs if key == "PCI_SLOT_NAME"), "")
    return discovery.pci_order(address) if address else ()

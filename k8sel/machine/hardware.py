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


class Seen(Struct, frozen=True, kw_only=True):
    """One row of the table, and what of it is on this machine."""

    row: Row
    found: Found
    numa: tuple[int | None, ...]  # of each device; None: the kernel does not say


def this() -> Machine:
    """This machine, or the one that K8SEL_ROOT lays out for a test."""
    return machine.under(os.environ.get("K8SEL_ROOT", ""))


def find(row: Row) -> Found:
    """This machine's devices of ``row``, as the entrypoint finds them."""
    return discovery.find(row.discovery, this(), os.environ)


def look(row: Row) -> Seen:
    """This machine's devices of ``row``, and where they are attached."""
    found, here = find(row), this()
    return Seen(row=row, found=found, numa=tuple(discovery.numa_node(device, here) for device in found.devices))


def kinds() -> dict[str, Found]:
    """The rows of the table whose devices are here."""
    looked = ((row.name, find(row)) for row in ROWS.values())
    return {name: found for name, found in looked if found.devices}


def accelerator() -> tuple[str, str]:
    """What `auto` means here, and why: the table's first row with devices here; without any, the row that has none."""
    first, *others = [(name, _counted(name, found)) for name, found in kinds().items()] or [_without()]
    beside = f"; {', '.join(why for _, why in others)} would be another choice" if others else ""
    return first[0], first[1] + beside


def _counted(name: str, found: Found) -> str:
    number = len(found.devices)
    return f"{number} {name} device{'' if number == 1 else 's'} by {found.how}"


def _without() -> tuple[str, str]:
    return without_devices().name, "no device of any kind is here"


def masks(environ: Mapping[str, str]) -> dict[str, str]:
    """The variables with which a shell can have narrowed or reordered devices, where ``environ`` has them."""
    names = sorted({name for row in ROWS.values() for name in row.owned_env})
    return {name: environ[name] for name in names if name in environ}


def sockets() -> int:
    """CPU sockets with a CPU that this process may use; 1 where the machine does not say."""
    folder = f"{this().sys}/devices/system/cpu"
    packages = {machine.read(folder, f"cpu{cpu}/topology/physical_package_id") for cpu in _cpus()}
    return len(packages - {""}) or 1


def numa_nodes() -> int:
    """NUMA nodes with a CPU that this process may use: some have only memory. 1 where the machine does not say."""
    usable, lists = _cpus(), Path(this().sys, "devices/system/node").glob("node[0-9]*/cpulist")
    return sum(any(usable & set(part) for part in cpus.listed(machine.read(str(each)))) for each in lists) or 1


def _cpus() -> set[int]:
    """The CPUs that this process may use; only Linux tells them apart."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else set(range(os.cpu_count() or 1))


def device_nodes(row: Row, root: str = "") -> dict[str, tuple[str, ...]]:
    """Each pattern of the row with a ``*``, and the machine's nodes that it means, by PCI address.

    By address because the kernel numbers nodes as their drivers come up; ``root``: where a machine is laid out.
    """
    patterns = [pattern for pattern in row.docker_nodes if "*" in pattern]
    return {pattern: tuple(_of_vendor(row, pattern, root)) for pattern in patterns}


def groups(paths: Iterable[str]) -> dict[str, int]:
    """The group of each node that is there, unless it is root's."""
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
    """What the kernel says of a device's place; partitions of one device share it."""
    pairs = (line.partition("=") for line in machine.read(device, "uevent").splitlines())
    address = next((value for key, _, value in pairs if key == "PCI_SLOT_NAME"), "")
    return discovery.pci_order(address) if address else ()

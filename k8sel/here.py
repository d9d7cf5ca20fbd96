"""What the doors that start processes on this machine have to know of it."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from k8sel.accelerators import ROWS, Row
from k8sel.entrypoint import discovery, machine


def accelerator() -> str:
    """The first row of the table whose devices are here; without any, the row that has none."""
    here = machine.under(os.environ.get("K8SEL_ROOT", ""))
    found = (row.name for row in ROWS.values() if discovery.find(row.discovery, here).devices)
    without = (row.name for row in ROWS.values() if row.in_container and not row.is_device)
    return next(found, None) or next(without)


def sockets() -> int:
    """CPU sockets; 1 where the machine does not say."""
    packages = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/physical_package_id")
    return len({package.read_text() for package in packages}) or 1


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
    for node in map(str, Path(root + "/").glob(pattern[1:])):
        device = Path(f"{root}/sys/class/drm", Path(node).name, "device")
        vendor = device / "vendor"
        if vendor.exists() and vendor.read_text().strip() == row.docker_pci_vendor:
            placed.append((discovery.pci_order(device.resolve().name), node.removeprefix(root)))
    return [node for _, node in sorted(placed)]

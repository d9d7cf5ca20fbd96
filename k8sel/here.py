"""What the doors that start processes on this machine have to know of it."""

from __future__ import annotations

import os
from pathlib import Path

from k8sel.accelerators import ROWS
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

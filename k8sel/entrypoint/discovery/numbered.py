"""Devices known by their nodes only: /dev/<name><N>, N ascending. The table has the name."""

from __future__ import annotations

import os

from k8sel.entrypoint.discovery import Device, Found, opened
from k8sel.entrypoint.machine import Machine, numbers


def find(machine: Machine, prefix: str) -> Found:
    """Finds one device for each node. The vendor's numbers should start at 0; else it adds a note."""
    tried = opened.tried(nodes(machine, prefix))
    here = [number for number in numbers(prefix, machine.dev) if _path(machine, prefix, number) not in tried.refused]
    devices = tuple(Device() for _ in here)
    notes = tried.notes
    if here != list(range(len(here))):
        listed = ", ".join(map(str, here))
        notes += (f"device nodes {prefix}<N> have the numbers {listed} here; the mask is assumed to count from 0",)
    return Found(devices, f"/dev/{prefix}<N>", notes=notes, named=False)


def nodes(machine: Machine, prefix: str) -> list[str]:
    """Lists the device nodes, without the control nodes beside them."""
    return [_path(machine, prefix, number) for number in numbers(prefix, machine.dev)]


def _path(machine: Machine, prefix: str, number: int) -> str:
    return os.path.join(machine.dev, f"{prefix}{number}")

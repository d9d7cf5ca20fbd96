"""Apple's GPU: each Mac with Apple's own processor has one. It has no device node and no mask."""

from __future__ import annotations

from k8sel.entrypoint.discovery import Device, Found
from k8sel.entrypoint.machine import Machine

_MAC = "Darwin arm64"  # Intel Macs have had no PyTorch since 2.3: pytorch/pytorch#114602


def find(machine: Machine) -> Found:
    """Finds the one GPU of a Mac."""
    return Found((Device(),) if machine.system == _MAC else (), "uname", named=False)


def nodes(machine: Machine) -> list[str]:
    """Returns none: macOS has no file for the GPU, and no container gets it."""
    return []

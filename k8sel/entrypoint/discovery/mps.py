"""Apple's GPU: each Mac with Apple's own processor has one. There is no device node of it, and nothing to mask."""

from __future__ import annotations

from k8sel.entrypoint.discovery import Device, Found
from k8sel.entrypoint.machine import Machine

_MAC = "Darwin arm64"  # Intel Macs have had no PyTorch since 2.3: pytorch/pytorch#114602


def find(machine: Machine) -> Found:
    """The one GPU, on a Mac."""
    return Found((Device(),) if machine.system == _MAC else (), "uname", named=False)


def nodes(machine: Machine) -> list[str]:
    """None: macOS has no file for it, and no container gets it."""
    return []

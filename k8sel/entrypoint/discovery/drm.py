"""Render nodes, and the files in /sys of the device behind each. Several vendors share this module.

/sys shows the host's devices; only those with a node in /dev are this container's.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.discovery import Device, known_pci, pci_order
from k8sel.entrypoint.lean import replace
from k8sel.entrypoint.machine import Machine, numbers, read


def minors(machine: Machine) -> list[int]:
    """Lists the numbers of the render nodes in this container. They do not tell the devices' order."""
    return numbers("renderD", machine.dev, "dri")


def path(machine: Machine, minor: int) -> str:
    """Returns the path of a render node."""
    return os.path.join(machine.dev, "dri", f"renderD{minor}")


def sysfs(machine: Machine, minor: int, *name: str) -> str:
    """Reads a file of the device behind a render node."""
    return read(machine.sys, "class/drm", f"renderD{minor}", "device", *name)


def numbered(machine: Machine, minor: int, *path: str) -> list[str]:
    """Lists the names that are the last word of ``path`` and a number, in a folder of the device, by number."""
    *folder, start = path
    found = numbers(start, machine.sys, "class/drm", f"renderD{minor}", "device", *folder)
    return [f"{start}{number}" for number in found]


def pci(machine: Machine, minor: int) -> str:
    """Returns the device's PCI address; empty if the kernel does not list it."""
    pairs = (line.partition("=") for line in sysfs(machine, minor, "uevent").splitlines())
    return known_pci(next((value for key, _, value in pairs if key == "PCI_SLOT_NAME"), ""))


def in_pci_order(devices: list[Device], read: int | None = None) -> tuple[tuple[Device, ...], list[str]]:
    """Sorts the devices by address, of which the driver reads the last ``read`` characters.

    If an address is unknown, keeps the driver's order without addresses, and adds a note.
    """
    if all(device.pci for device in devices):  # stable: the partitions of one device share its address
        return tuple(sorted(devices, key=lambda device: pci_order(device.pci[-read if read else 0 :]))), []
    note = "/sys lacks a PCI address: devices are counted in the driver's own order"
    return tuple(replace(device, pci="") for device in devices), [note]

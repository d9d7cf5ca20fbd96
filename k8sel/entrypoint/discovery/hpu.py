"""Gaudi: /dev/accel/accel<N>, with each one's module id from /sys. Module ids are stable, the N in a name is not."""

from __future__ import annotations

import os

from k8sel.entrypoint.discovery import Device, Found, known_pci
from k8sel.entrypoint.machine import Machine, names, read, whole


def find(machine: Machine) -> Found:
    """Finds the devices by module id. Does not open them: only one process can open a Gaudi."""
    modules = {name: _module(machine, name) for name in _names(machine)}
    found = sorted((module, name) for name, module in modules.items() if module is not None)
    lost = [name for name, module in modules.items() if module is None]
    notes = [f"/sys has no module id of {', '.join(lost)}"] if lost else []
    error = machine.setting("HABANA_RUNTIME_ERROR")  # of HabanaAI/habana-container-runtime, as its README.md says
    notes += [f"error of the container runtime: {error}"] if error else []
    devices = tuple(_device(machine, name, module) for module, name in found)
    return Found(devices, "/dev/accel", notes=tuple(notes), named=False)


def _device(machine: Machine, name: str, module: int) -> Device:
    address = known_pci(read(machine.sys, "class/accel", name, "device/pci_addr"))
    return Device(address, number=str(module), node=os.path.join(machine.dev, "accel", name))


def nodes(machine: Machine) -> list[str]:
    """Lists the device nodes, without the control nodes beside them."""
    return [os.path.join(machine.dev, "accel", name) for name in _names(machine) if _module(machine, name) is not None]


def _names(machine: Machine) -> list[str]:
    return [name for name in names(machine.dev, "accel") if name[:5] == "accel" and name[5:].isdecimal()]


def _module(machine: Machine, name: str) -> int | None:
    return whole(read(machine.sys, "class/accel", name, "device/module_id"))

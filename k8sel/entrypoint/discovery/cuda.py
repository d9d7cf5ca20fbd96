"""NVIDIA GPUs: by NVML, else by the driver's files in /proc, else by their device nodes."""

from __future__ import annotations

import os

from k8sel.entrypoint.discovery import Device, Found, normal_pci, opened, pci_order
from k8sel.entrypoint.lean import dumps, loads
from k8sel.entrypoint.machine import Machine, names, read
from k8sel.entrypoint.record import TYPE_CHECKING, replace

if TYPE_CHECKING:
    from typing import Any, Callable

NVML_SECONDS = 7.0  # and what comes after it still ends before 10 s are over


class Unavailable(Exception):
    """This way cannot say anything here; the text says why."""


def find(machine: Machine) -> Found:
    """The GPUs by the best way that answers. That a node has none is an answer of NVML, too."""
    notes: list[str] = []
    ways: tuple[tuple[str, Callable[[Machine], Found]], ...] = (("NVML", by_nvml), (_PROC, by_proc))
    for how, look in ways:
        try:
            found = look(machine)
        except Unavailable as reason:
            notes.append(f"{how}: {reason}")
        else:
            return replace(found, notes=(*notes, *found.notes, *_not_shown(found, machine)))
    found = by_nodes(machine)
    return replace(found, notes=(*notes, *found.notes))


def _not_shown(found: Found, machine: Machine) -> tuple[str, ...]:
    """What is known of device nodes beyond the GPUs found. The slices of one GPU share its address."""
    paths, shown = nodes(machine), len({device.pci for device in found.devices})
    if len(paths) <= shown:
        return ()
    more = f"{len(paths)} device nodes are in this container, {found.how} shows the GPUs of {shown}"
    return (more, *(() if found.how == _PROC else opened.tried(paths).notes))  # tried there already


def by_nvml(machine: Machine) -> Found:
    """What the driver's own library says, asked in a child process: it may hang on a broken GPU, or crash."""
    from k8sel.entrypoint import forked
    from k8sel.entrypoint.discovery import nvml

    try:
        answer = loads(forked.call(lambda: dumps(nvml.look(machine.lib)), NVML_SECONDS))
    except forked.Failed as reason:
        raise Unavailable(str(reason)) from None
    return Found(_sorted(answer["devices"]), "NVML", answer["driver"], tuple(answer["notes"]))


def _sorted(devices: list[list[Any]]) -> tuple[Device, ...]:
    """Devices from address, UUID, name and memory, in PCI order. Stable: the slices of a GPU keep NVML's order."""
    try:
        found = [_device(*each) for each in devices]
    except ValueError as error:
        raise Unavailable(str(error)) from None
    return tuple(sorted(found, key=lambda device: pci_order(device.pci)))


def _device(pci: str, uuid: str, name: str, memory: int = 0) -> Device:
    return Device(normal_pci(pci), uuid, name, memory=memory)


_PROC = "/proc/driver/nvidia"


def by_proc(machine: Machine) -> Found:
    """What the kernel module says. CDI does not hide the host's other GPUs there, so only those with a node count."""
    folder = os.path.join(machine.proc, "driver/nvidia")
    addresses = names(folder, "gpus")
    if not addresses:
        raise Unavailable("not there")
    tried = opened.tried(nodes(machine))
    here = [node for node in nodes(machine) if node not in tried.refused]
    gpus = [_information(address, read(folder, "gpus", address, "information")) for address in addresses]
    found = [gpu for minor, *gpu in gpus if os.path.join(machine.dev, f"nvidia{minor}") in here]
    return Found(_sorted(found), _PROC, _kernel_driver(read(folder, "version")), tried.notes)


def _information(address: str, text: str) -> list[str]:
    """Minor, address, UUID and name of one GPU in ``/proc/driver/nvidia/gpus``; its minor is empty if it is excluded.

    Layout: NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-procfs.c.
    """
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in pairs}
    if not fields.get("Device Minor"):
        raise Unavailable(f"gpus/{address}/information does not say which device node it is")
    uuid = fields.get("GPU UUID", "")
    return [
        "" if fields.get("GPU Excluded") == "Yes" else fields["Device Minor"],
        fields.get("Bus Location", address),
        "" if "?" in uuid else uuid,  # question marks until the GPU was used for the first time
        fields.get("Model", ""),
    ]


def _kernel_driver(text: str) -> str:
    """The first word that looks like one: ``NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...``."""
    words = (word for word in text.split() if "." in word and word.replace(".", "").isdecimal())
    return next(words, "")


def by_nodes(machine: Machine) -> Found:
    """How many there are, and nothing else: the number in a node's name is neither CUDA's nor NVML's."""
    tried = opened.tried(nodes(machine))
    here = tuple(Device() for node in nodes(machine) if node not in tried.refused)
    return Found(here, "device nodes", notes=tried.notes)


def nodes(machine: Machine) -> list[str]:
    """Device nodes of GPUs, without the control nodes beside them."""
    return [
        os.path.join(machine.dev, name) for name in names(machine.dev) if name[:6] == "nvidia" and name[6:].isdecimal()
    ]

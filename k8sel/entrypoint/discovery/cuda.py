"""NVIDIA GPUs: by NVML, else by the driver's files in /proc, else by their device nodes."""

from __future__ import annotations

import os

from k8sel.entrypoint.discovery import Device, Found, normal_pci
from k8sel.entrypoint.lean import dumps, loads
from k8sel.entrypoint.machine import Machine, names, read
from k8sel.entrypoint.record import TYPE_CHECKING, replace

if TYPE_CHECKING:
    from typing import Callable

NVML_SECONDS = 8.0


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
            return replace(found, notes=(*notes, *found.notes))
    return replace(by_nodes(machine), notes=tuple(notes))


def by_nvml(machine: Machine) -> Found:
    """What the driver's own library says, asked in a child process: it may hang on a broken GPU, or crash."""
    from k8sel.entrypoint import forked
    from k8sel.entrypoint.discovery import nvml

    try:
        answer = loads(forked.call(lambda: dumps(nvml.look(machine.lib)), NVML_SECONDS))
    except forked.Failed as reason:
        raise Unavailable(str(reason)) from None
    devices = tuple(Device(normal_pci(pci), uuid, name) for pci, uuid, name in answer["devices"])
    # Stable: the slices of one GPU share its address and keep NVML's order.
    devices = tuple(sorted(devices, key=lambda device: device.pci))
    return Found(devices, "NVML", answer["driver"], tuple(answer["notes"]))


_PROC = "/proc/driver/nvidia"


def by_proc(machine: Machine) -> Found:
    """What the kernel module says. CDI does not hide the host's other GPUs there, so only those with a node count."""
    folder = os.path.join(machine.proc, "driver/nvidia")
    addresses = names(folder, "gpus")
    if not addresses:
        raise Unavailable("not there")
    devices = (_from_information(machine, read(folder, "gpus", address, "information")) for address in addresses)
    found = tuple(sorted((device for device in devices if device), key=lambda device: device.pci))
    return Found(found, _PROC, _kernel_driver(read(folder, "version")))


def _from_information(machine: Machine, text: str) -> Device | None:
    """One GPU of ``/proc/driver/nvidia/gpus/*/information``, None if it is not in this container.

    Layout: NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-procfs.c.
    """
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in pairs}
    node = os.path.join(machine.dev, "nvidia" + fields.get("Device Minor", "?"))
    if not os.path.exists(node) or fields.get("GPU Excluded") == "Yes":
        return None
    uuid = fields.get("GPU UUID", "")
    # Question marks until the GPU was used for the first time.
    return Device(normal_pci(fields["Bus Location"]), "" if "?" in uuid else uuid, fields.get("Model", ""))


def _kernel_driver(text: str) -> str:
    """The first word that looks like one: ``NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...``."""
    words = (word for word in text.split() if "." in word and word.replace(".", "").isdigit())
    return next(words, "")


def by_nodes(machine: Machine) -> Found:
    """How many there are, and nothing else: the number in a node's name is neither CUDA's nor NVML's."""
    return Found(tuple(Device() for _ in nodes(machine)), "device nodes")


def nodes(machine: Machine) -> list[str]:
    """Device nodes of GPUs, without the control nodes beside them."""
    return [
        os.path.join(machine.dev, name) for name in names(machine.dev) if name[:6] == "nvidia" and name[6:].isdigit()
    ]

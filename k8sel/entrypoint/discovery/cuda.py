"""NVIDIA GPUs: by NVML, else by the driver's files in /proc, else by their device nodes.

NVIDIA_VISIBLE_DEVICES is not used: in a container it may be ``void``, a folder, or numbers of another container.
"""

from __future__ import annotations

import os
import sys

from k8sel.entrypoint.discovery import Device, Found, normal_pci, pci_order
from k8sel.entrypoint.lean import TYPE_CHECKING, dumps, loads, replace
from k8sel.entrypoint.machine import Machine, names, read

if TYPE_CHECKING:
    from typing import Callable

EVENT = "k8sel.nvml"  # the audit event of the library's answer
NVML_SECONDS = 7.0  # the whole start stays below 10 s
_WSL = "dxg"  # its one node for every GPU: NVIDIA/nvidia-container-toolkit pkg/nvcdi/lib-wsl.go
# docs.nvidia.com, MIG user guide, "Device Names": before this version, a process sees only the first part in its mask.
_SEVERAL_PARTS = 570
# NVIDIA/nvidia-container-toolkit pkg/nvcdi/lib-csv.go, isOrinGPUID: only these name a device in CUDA's mask.
_UUIDS = ("GPU-", "MIG-")
_TEGRA = ("nvmap", "nvhost-gpu", "nvgpu")  # nodes of Jetsons, in the toolkit's lists of files (CSV mode)
_NVML, _PROC, _NODES = "NVML", "/proc/driver/nvidia", "device nodes"


class Unavailable(Exception):
    """This way cannot find the GPUs; the text is the reason."""


def find(machine: Machine) -> Found:
    """Finds the GPUs by the best way that answers. NVML's answer may be that there are none."""
    notes: list[str] = []
    for how, look in _WAYS:
        try:
            found = look(machine)
        except Unavailable as reason:
            notes.append(f"{how}: {reason}")
        else:
            notes += [*found.notes, *_beside(found, machine)]
            return replace(found, notes=tuple(notes), alone=_alone(found))
    return Found(notes=tuple(notes))


def _alone(found: Found) -> str:
    if not any(device.part for device in found.devices):
        return ""
    major = found.driver.partition(".")[0]
    if major.isdecimal() and int(major) >= _SEVERAL_PARTS:
        return ""
    driver = f"driver {found.driver}" if found.driver else "a driver of unknown version"
    return f"CUDA with {driver} shows a process one part of a GPU (MIG) only, with R{_SEVERAL_PARTS} and newer several"


def _beside(found: Found, machine: Machine) -> tuple[str, ...]:
    """Returns notes about devices beside the GPUs found."""
    if _under_wsl(machine):
        return (f"/dev/{_WSL} is every GPU of the machine: under WSL a container cannot have only some of them",)
    return _not_shown(found, machine)


def _under_wsl(machine: Machine) -> bool:
    return _WSL in names(machine.dev) and not nodes(machine)


def _on_tegra(machine: Machine) -> bool:
    """Reports if this is a Jetson: one of its nodes is a display, so nodes do not show the number of GPUs.

    NVIDIA/nvidia-container-toolkit pkg/nvcdi/lib-csv.go, deviceNodeMountSpecs (/dev/nvidia2 is the iGPU's display);
    NVIDIA/go-nvlib pkg/nvlib/info/property-extractor.go, HasTegraFiles.
    """
    family = read(machine.sys, "devices/soc0/family")
    return family.lower().startswith("tegra") or not {*_TEGRA}.isdisjoint(names(machine.dev))


def _not_shown(found: Found, machine: Machine) -> tuple[str, ...]:
    """Returns notes about device nodes beside the GPUs found. The parts of one GPU share its address."""
    paths, shown = nodes(machine), len({device.pci for device in found.devices})
    if len(paths) <= shown or found.how == _NODES or _on_tegra(machine):
        return ()
    from k8sel.entrypoint.discovery import opened

    more = f"{len(paths)} device nodes are in this container, {found.how} shows {shown} of them"
    return (more, *(() if found.how == _PROC else opened.tried(paths).notes))  # that way has tried them


def by_nvml(machine: Machine) -> Found:
    """Asks the driver's own library in a child process, because it may hang or crash on a broken GPU."""
    from k8sel.entrypoint.discovery import forked, nvml

    try:
        answer = loads(forked.call(lambda: dumps(nvml.look(machine.lib)), NVML_SECONDS))
    except forked.Failed as reason:
        raise Unavailable(str(reason)) from None
    sys.audit(EVENT, answer)
    devices = _in_order([_device(*each) for each in answer["devices"]])
    notes = (*answer["notes"], *_unaddressed(devices))
    return Found(devices, _NVML, answer["driver"], notes, answer["runtime"], library=answer["library"])


def _unaddressed(devices: tuple[Device, ...]) -> list[str]:
    """Notes GPUs that the mask cannot name by UUID, and those whose order is not known."""
    unnamed = [device.name or "a GPU" for device in devices if not device.uuid]
    without = [device for device in devices if not device.pci]
    return [
        *([f"CUDA_VISIBLE_DEVICES has no names for {', '.join(unnamed)}, only numbers"] if unnamed else []),
        *([f"{len(without)} GPUs have no PCI address: they are counted in NVML's order"] if len(without) > 1 else []),
    ]


def _device(pci: str | None, uuid: str, name: str, memory: int = 0) -> Device:
    part = f"MIG {name.partition(' MIG ')[2]}".strip() if uuid.startswith("MIG-") else ""
    named = uuid if uuid.startswith(_UUIDS) else ""
    try:
        return Device("" if pci is None else normal_pci(pci), named, name, memory=memory, part=part)
    except ValueError as error:
        raise Unavailable(str(error)) from None


def _in_order(devices: list[Device]) -> tuple[Device, ...]:
    """Sorts by PCI address. Stable: the parts of a GPU keep NVML's order.

    For CUDA, a GPU without an address has the lowest one: NVIDIA/nvbandwidth#55 (Orin, 00000000:00:00).
    """
    return tuple(sorted(devices, key=lambda device: pci_order(device.pci) if device.pci else ()))


def by_proc(machine: Machine) -> Found:
    """Reads the kernel module's list. CDI does not hide the host's other GPUs there, so only GPUs with a node count."""
    folder = os.path.join(machine.proc, "driver/nvidia")
    addresses = names(folder, "gpus")
    if not addresses:
        raise Unavailable("not found")
    gpus = [_information(address, read(folder, "gpus", address, "information")) for address in addresses]
    found, notes = _openable({minor: _device(pci, uuid, name) for minor, pci, uuid, name in gpus}, machine)
    return Found(_in_order(found), _PROC, _kernel_driver(read(folder, "version")), notes)


def _openable(gpus: dict[str, Device], machine: Machine) -> tuple[list[Device], tuple[str, ...]]:
    """Returns the GPUs, by minor number, whose node can be opened here; a partitioned GPU becomes its parts."""
    from k8sel.entrypoint.discovery import mig, opened

    tried, parts = opened.tried(nodes(machine)), mig.here(machine)
    here = [node for node in nodes(machine) if node not in tried.refused]
    found: list[Device] = []
    for minor, gpu in gpus.items():
        if _node(machine, minor) in here:
            found += [replace(gpu, uuid="", part="MIG")] * parts[minor] if minor in parts else [gpu]
    unnamed = ["only NVML can tell the parts of a GPU (MIG) apart"] if any(gpu.part for gpu in found) else []
    return found, (*tried.notes, *unnamed)


def _information(address: str, text: str) -> list[str]:
    """Reads minor, address, UUID and name of a GPU in ``/proc/driver/nvidia/gpus``; an excluded GPU has no minor.

    Layout: NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia/nv-procfs.c.
    """
    pairs = (line.split(":", 1) for line in text.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in pairs}
    if not fields.get("Device Minor"):
        raise Unavailable(f"gpus/{address}/information has no Device Minor")
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
    """Counts the device nodes only: the number in a node's name is neither CUDA's nor NVML's."""
    from k8sel.entrypoint.discovery import mig

    if _under_wsl(machine):
        raise Unavailable(f"/dev/{_WSL} does not show the number of GPUs")
    if _on_tegra(machine):
        raise Unavailable("Tegra's do not show the number of GPUs")
    if mig.unexplained(machine):
        raise Unavailable("/dev/nvidia-caps has parts of GPUs (MIG), and no file names their GPUs")
    found, notes = _openable({minor: Device() for minor in _minors(machine)}, machine)
    return Found(tuple(found), _NODES, notes=notes)


_WAYS: tuple[tuple[str, Callable[[Machine], Found]], ...] = (
    (_NVML, by_nvml),
    (_PROC, by_proc),
    (_NODES, by_nodes),
)


def nodes(machine: Machine) -> list[str]:
    """Lists the device nodes of GPUs, without the control nodes beside them."""
    return [_node(machine, minor) for minor in _minors(machine)]


def _minors(machine: Machine) -> list[str]:
    return [name[6:] for name in names(machine.dev) if name[:6] == "nvidia" and name[6:].isdecimal()]


def _node(machine: Machine, minor: str) -> str:
    return os.path.join(machine.dev, f"nvidia{minor}")

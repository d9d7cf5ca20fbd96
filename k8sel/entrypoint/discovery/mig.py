"""Counts the parts (MIG) of each NVIDIA GPU that are in this container, from the kernel's files.

Each part has a node in /dev/nvidia-caps, and a file lists the part of each node: NVIDIA/nvidia-container-toolkit,
internal/nvcaps/nvcaps.go. The UUID and the size of a part are not there: only NVML knows them.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.machine import Machine, names, read


def here(machine: Machine) -> dict[str, int]:
    """Counts the parts of each partitioned GPU in this container, by the GPU's minor number; the count may be 0."""
    found = dict.fromkeys(_partitioned(machine), 0)
    for node in _nodes(machine):
        gpu, *inner = _capabilities(machine).get(node, "").split("/")
        if len(inner) == 3:  # gi<N>/ci<N>/access; the part around it has a node of its own
            found[gpu[3:]] = found.get(gpu[3:], 0) + 1
    return found


def unexplained(machine: Machine) -> list[str]:
    """Lists nodes of parts whose GPU is not known."""
    known = _capabilities(machine)
    return [os.path.join(machine.dev, "nvidia-caps", node) for node in _nodes(machine) if node not in known]


def _partitioned(machine: Machine) -> list[str]:
    """Lists minor numbers of partitioned GPUs, also if other containers have the parts: nobody can use them whole."""
    folder = os.path.join(machine.proc, "driver/nvidia/capabilities")
    gpus = [name for name in names(folder) if name[:3] == "gpu"]
    return [gpu[3:] for gpu in gpus if any(name[:2] == "gi" for name in names(folder, gpu, "mig"))]


def _nodes(machine: Machine) -> list[str]:
    """Lists the nodes ``nvidia-cap<N>`` in this container."""
    return names(machine.dev, "nvidia-caps")


def _capabilities(machine: Machine) -> dict[str, str]:
    """Maps each node to the part that it opens, such as ``gpu0/gi1/ci0/access``."""
    lines = read(machine.proc, "driver/nvidia-caps/mig-minors").splitlines()
    pairs = (line.split() for line in lines)
    return {f"nvidia-cap{pair[1]}": pair[0] for pair in pairs if len(pair) == 2}

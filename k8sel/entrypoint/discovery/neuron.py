"""AWS Neuron: /dev/neuron<N>, and how many cores each device has. The mask counts cores, from 0 for this container's.

The driver adds the first device's cores itself: aws-neuron/aws-neuron-driver, neuron_cdev.c (ncdev_crwl_nc_range_mark).
"""

from __future__ import annotations

import os

from k8sel.entrypoint.discovery import Device, Found
from k8sel.entrypoint.machine import Machine, numbers, read, whole

_GROUPS = ("NEURON_LOGICAL_NC_CONFIG", "NEURON_RT_VIRTUAL_CORE_SIZE")
# aws-neuron/aws-neuron-sdk, about-neuron/arch/neuron-features/logical-neuroncore-config.rst: only devices of eight
# cores (Trainium2 and newer) can show them in pairs, and they do so by default.
_GROUPED, _DEFAULT = 8, 2
_MOST = 1024  # cores of a device; a larger number is taken for an error


def find(machine: Machine) -> Found:
    """Finds the devices by number, each with the range of its cores. Does not open them: that would reserve them."""
    here = numbers("neuron", machine.dev)
    cores = [_cores(machine, number) for number in here]
    starts = [sum(cores[:index]) for index in range(len(cores))]
    ranges = [f"{start}-{start + size - 1}" for start, size in zip(starts, cores)]  # noqa: B905  (strict= is 3.10's)
    known = bool(cores) and all(cores)
    devices = tuple(Device(number=each if known else "") for each in ranges)
    return Found(devices, "/dev/neuron<N>", notes=tuple(_notes(machine, here, cores)), named=False)


def nodes(machine: Machine) -> list[str]:
    """Lists the device nodes."""
    return [os.path.join(machine.dev, f"neuron{number}") for number in numbers("neuron", machine.dev)]


def _cores(machine: Machine, number: int) -> int:
    """Counts the cores of a device as the mask does; 0 if that is not known."""
    physical, group = _physical(machine, number), _group(machine)
    if physical < _GROUPED:
        return physical
    return physical // group if group and not physical % group else 0


def _physical(machine: Machine, number: int) -> int:
    """Reads ``core_count``, which only root may read with a driver older than 2026; else counts the cores' folders."""
    folder = os.path.join(machine.sys, "class/neuron_device", f"neuron{number}")
    count = whole(read(folder, "core_count"))
    if count is not None and count <= _MOST:
        return count
    return len(numbers("neuron_core", folder))


def _group(machine: Machine) -> int:
    """Returns the physical cores in each logical core; 0 if the variable is not a number."""
    text = machine.setting(*_GROUPS) or str(_DEFAULT)
    return int(text) if text in ("1", "2") else 0


def _notes(machine: Machine, here: list[int], cores: list[int]) -> list[str]:
    unread = [f"neuron{number}" for number, size in zip(here, cores) if not size]  # noqa: B905  (strict= is 3.10's)
    apart = here != list(range(here[0], here[0] + len(here))) if here else False
    listed = ", ".join(f"neuron{number}" for number in here)
    pairs = not machine.setting(*_GROUPS) and any(_physical(machine, number) >= _GROUPED for number in here)
    return [
        *([f"the number of cores of {', '.join(unread)} is not known, and the mask counts cores"] if unread else []),
        *([f"{listed} are not neighbours, and the runtime needs neighbours"] if apart else []),
        *([f"cores are counted in pairs, the default if {_GROUPS[0]} is not set"] if pairs else []),
    ]

"""What a start says of itself: one line for people, one for tools."""

from __future__ import annotations

import sys

from k8sel.entrypoint import cpus, discovery, report
from k8sel.entrypoint.checks.survey import Survey
from k8sel.entrypoint.cpus import Share
from k8sel.entrypoint.discovery import Device
from k8sel.entrypoint.machine import Machine
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.record import TYPE_CHECKING
from k8sel.entrypoint.start.processes import Process

if TYPE_CHECKING:
    from typing import Any


def write(seen: Survey, expectation: Expectation, each: list[Process], environ: dict[str, str], share: Share) -> None:
    """Prints the summary and the receipt of a command in ``environ``."""
    gets = "; ".join(f"local rank {process.local_rank} -> {_gets(process, seen, expectation)}" for process in each)
    unchecked = f"; not checked: {', '.join(seen.unchecked)}" if seen.unchecked else ""
    report.say(f"node {seen.name}: {gets}{_threads(environ, share, seen)}{unchecked}")
    report.receipt(
        {
            "node": seen.name,
            "job": expectation.job,
            "jobFile": expectation.job_file,
            "nodes": expectation.nodes,
            "processesPerNode": expectation.processes_per_node,
            "mode": "rank" if "LOCAL_RANK" in environ else "node",
            "accelerator": seen.row.name,
            "how": seen.found.how,
            "driver": seen.found.driver,
            "runtime": seen.found.runtime,
            "python": ".".join(map(str, sys.version_info[:3])),
            "libraries": seen.libraries or {},
            "check": expectation.check,
            "notChecked": seen.unchecked,
            "rank": environ.get("RANK"),
            "threads": environ.get("OMP_NUM_THREADS"),
            "cores": share.cores,
            "cclWorkers": share.workers,
            "numaNodes": cpus.numa_nodes(seen.machine),
            "mask": {name: environ.get(name) for name in each[0].variables},
            "ranks": [_receipt_of(process, seen, expectation) for process in each],
        }
    )


def _threads(environ: dict[str, str], share: Share, seen: Survey) -> str:
    """``; OMP_NUM_THREADS=23 on 24 cores, 1 for oneCCL``: the cores of a process that computes on them."""
    if "OMP_NUM_THREADS" not in environ:  # the ranks will say theirs
        return ""
    threads = f"; OMP_NUM_THREADS={environ['OMP_NUM_THREADS']}"
    if share.cores is None or not (seen.hidden or share.workers):
        return threads
    return f"{threads} on {cpus.cores(share)}" + (f", {share.workers} for oneCCL" if share.workers else "")


def _gets(process: Process, seen: Survey, expectation: Expectation) -> str:
    """``cuda device 2 of 3, GPU-..., 0000:3b:00.0 (NVML)``."""
    if seen.hidden:
        return f"the machine's own {seen.row.name} device" if seen.found.devices else "no device"
    if not process.own:
        return f"no {seen.row.name} device"
    of = f" of {len(seen.found.devices)}" if seen.found.how else ""
    each = (_one(position, of, _device(position, seen, expectation)) for position in process.own)
    return f"{seen.row.name} {' + '.join(each)} ({seen.found.how or 'not checked'})"


def _one(position: int, of: str, device: Device) -> str:
    return ", ".join([f"device {position}{of}", *(part for part in (device.uuid, device.pci, device.part) if part)])


def _device(position: int, seen: Survey, expectation: Expectation) -> Device:
    """The device at a position, as far as it is known: the numbers of order ``fastest`` are the driver's alone."""
    if expectation.order != "pci" or position >= len(seen.found.devices):
        return Device()
    return seen.found.devices[position]


def _receipt_of(process: Process, seen: Survey, expectation: Expectation) -> dict[str, Any]:
    devices = [_device(position, seen, expectation) for position in process.own]
    return {
        "localRank": process.local_rank,
        "positions": process.own,
        "devices": [_described(device, seen.machine) for device in devices],
    }


def _described(device: Device, machine: Machine) -> dict[str, Any]:
    numa = discovery.numa_node(device, machine)
    return {
        "uuid": device.uuid,
        "pci": device.pci,
        "part": device.part,
        "name": device.name,
        "memory": device.memory,
        "numa": numa,
    }

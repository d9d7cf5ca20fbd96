"""Prints the summary of a start: one line for people, and the receipt for tools."""

from __future__ import annotations

import os
import sys

from k8sel.entrypoint import cpus, discovery, report
from k8sel.entrypoint.discovery import Device
from k8sel.entrypoint.lean import TYPE_CHECKING, replace
from k8sel.entrypoint.machine import Machine, read
from k8sel.entrypoint.masks import Process
from k8sel.entrypoint.protocol import CHECK, PLAIN, VARIABLE

if TYPE_CHECKING:
    from typing import Any, Sequence

    from k8sel.entrypoint.checks import Case

_PRELOADS = ("LD_PRELOAD", "LD_AUDIT")  # libraries that the loader takes into this process first: ld.so(8)


def write(
    case: Case, unchecked: Sequence[str], each: list[Process], environ: dict[str, str], versions: dict[str, str]
) -> None:
    """Prints the summary and the receipt of a command in ``environ``; on a person's terminal, the summary alone."""
    gets = "; ".join(f"local rank {process.local_rank} -> {_gets(process, case)}" for process in each)
    left = f"; not checked: {', '.join(unchecked)}" if unchecked else ""
    report.say(f"node {case.name}: {gets}{_threads(environ, case)}{left}")
    if report.is_for_a_person(environ):
        return
    report.receipt(
        {
            "node": case.name,
            "job": case.expectation.job,
            "jobFile": case.expectation.job_file,
            "nodes": case.expectation.nodes,
            "processesPerNode": case.expectation.processes_per_node,
            "ownReceipts": case.expectation.rank_command > 0,
            "mode": "rank" if "LOCAL_RANK" in environ else "node",
            "accelerator": case.row.name,
            "how": case.found.how,
            "driver": case.found.driver,
            "runtime": case.found.runtime,
            "python": ".".join(map(str, sys.version_info[:3])),
            **_made_by(case, environ),
            "libraries": versions,
            "check": case.expectation.check,
            "notChecked": list(unchecked),
            "rank": environ.get("RANK"),
            "threads": environ.get("OMP_NUM_THREADS"),
            "cores": case.share.cores,
            "cclWorkers": case.share.workers,
            "numaNodes": cpus.numa_nodes(case.machine),
            "mask": {name: environ.get(name) for name in each[0].variables},
            "ranks": [_receipt_of(process, case) for process in each],
        }
    )


def _made_by(case: Case, environ: dict[str, str]) -> dict[str, Any]:
    """Returns the parts of the image that this receipt rests on: an image may replace each of them.

    The receipt's ``check`` shows what K8SEL_CHECK does.
    """
    given = [name for name in environ if name.startswith("K8SEL_") and name not in (VARIABLE, CHECK, *PLAIN)]
    preloaded = [*(os.environ.get(name, "") for name in _PRELOADS), read(case.machine.root + "/etc/ld.so.preload")]
    return {
        "pythonPath": _executable(),
        "isolated": bool(sys.flags.isolated),
        "library": dict(case.found.library),
        "preloaded": " ".join(preloaded).replace(":", " ").split(),
        "variables": {name: environ[name] for name in given if environ[name]},
    }


def _executable() -> str:
    """Returns the file of this Python: the kernel knows it where PATH has a link or a script of that name."""
    try:
        return os.readlink("/proc/self/exe")
    except OSError:
        return sys.executable or ""


def _threads(environ: dict[str, str], case: Case) -> str:
    """Returns ``; OMP_NUM_THREADS=23 on 24 cores, 1 for oneCCL``; the cores only where the CPUs compute."""
    if "OMP_NUM_THREADS" not in environ:  # the ranks will say theirs
        return ""
    threads = f"; OMP_NUM_THREADS={environ['OMP_NUM_THREADS']}"
    share = case.share
    if share.cores is None or not (case.hidden or share.workers):
        return threads
    return f"{threads} on {cpus.cores(share)}" + (f", {share.workers} for oneCCL" if share.workers else "")


def _gets(process: Process, case: Case) -> str:
    """Returns a text such as ``cuda device 2 of 3, GPU-..., 0000:3b:00.0 (NVML)``."""
    if case.hidden:
        return f"the machine's own {case.row.name} device" if case.found.devices else "no device"
    if not process.own:
        return f"no {case.row.name} device"
    of = f" of {len(case.found.devices)}" if case.found.how else ""
    each = (_one(position, of, device) for position, device in _devices(process, case))
    return f"{case.row.name} {' + '.join(each)} ({case.found.how or 'not checked'})"


def _one(position: int, of: str, device: Device) -> str:
    return ", ".join([f"device {position}{of}", *(part for part in (device.uuid, device.pci, device.part) if part)])


def _device(position: int, case: Case) -> Device:
    """Returns the device at a position; an empty one for order ``fastest``, whose numbers only the driver knows."""
    if case.expectation.order != "pci" or position >= len(case.found.devices):
        return Device()
    return case.found.devices[position]


def _devices(process: Process, case: Case) -> list[tuple[int, Device]]:
    """Returns the position of each device that a process uses, and the device, with the part that is the process's."""
    parts = process.parts or ("",) * len(process.own)
    each = [(position, _device(position, case), part) for position, part in zip(process.own, parts)]  # noqa: B905  (strict= is Python 3.10's)
    return [(position, replace(device, part=part) if part else device) for position, device, part in each]


def _receipt_of(process: Process, case: Case) -> dict[str, Any]:
    devices = [device for _, device in _devices(process, case)]
    return {
        "localRank": process.local_rank,
        "positions": process.own,
        "devices": [_described(device, case.machine) for device in devices],
    }


def _described(device: Device, machine: Machine) -> dict[str, Any]:
    return {
        "uuid": device.uuid,
        "pci": device.pci,
        "part": device.part,
        "name": device.name,
        "memory": device.memory,
        "numa": discovery.numa_node(device, machine),
    }

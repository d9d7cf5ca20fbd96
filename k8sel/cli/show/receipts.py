"""Shows receipts and the differences between two of them, as text or JSON. Decides nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

from k8sel.cli.show import plan
from k8sel.facts.accelerators import ROWS
from k8sel.receipts.collect import Process, Receipts, plain
from k8sel.receipts.compare import Compared, Difference
from k8sel.receipts.lines import Fields

HEADER = ("NODE", "RANK", "LOCAL RANK", "DEVICE", "PCI", "NUMA", "MASK", "THREADS", "DRIVER", "VERSIONS")
_UUID = 12  # a part of a mask with more characters is a UUID and no number
_TAIL = 4
_HASH = 12  # digits of a job file's hash
_NOTHING = {"libraries": "none", "mask": "not set"}  # the text for a missing value
_SHOWN = 8  # nodes listed in a line


def receipts(found: Receipts, output: str) -> None:
    """Prints ``found`` as `table` or `json`."""
    if output == "json":
        print(json.dumps(found.document(), indent=2, sort_keys=True))
        return
    plan.table(HEADER, [_row(each) for each in found.processes])


def _row(each: Process) -> tuple[str, ...]:
    devices = each.own.get("devices", [])
    columns = (_column(devices, "uuid") or _parts(devices), _column(devices, "pci"), _column(devices, "numa"))
    rank = "-" if each.rank is None else str(each.rank)
    return (
        *(plain(each.node), rank, str(each.local_rank)),
        *map(plain, columns),
        plain(_mask(each.start)),
        *(plain(each.start.get(name)) for name in ("threads", "driver")),
        plain(_versions(each.start)),
    )


def _column(devices: Sequence[Fields], name: str) -> str:
    """One fact about each device of a process; empty if it is unknown for all."""
    facts = ["-" if device.get(name) in (None, "") else str(device[name]) for device in devices]
    return ",".join(facts) if set(facts) - {"-"} else ""


def _parts(devices: Sequence[Fields]) -> str:
    """The parts of devices without UUID and address, such as the NeuronCore of a process."""
    return "" if any(device.get("pci") for device in devices) else _column(devices, "part")


def _mask(start: Fields) -> str:
    """The vendor's mask with short UUIDs. Only the JSON has the other variables that k8sel set."""
    row, mask = ROWS.get(str(start.get("accelerator"))), start.get("mask")
    value = mask.get(row.mask_env) if row and isinstance(mask, dict) else None
    return _short(value) if isinstance(value, str) else ""


def _short(mask: str) -> str:
    """A mask with only the last characters of each UUID: they distinguish the devices of a node."""
    return ",".join(f"...{name[-_TAIL:]}" if len(name) > _UUID else name for name in mask.split(","))


def _versions(start: Fields) -> str:
    found = start.get("libraries")
    libraries = found if isinstance(found, dict) else {}
    named = {"runtime": start.get("runtime"), "python": start.get("python"), **libraries}
    return ", ".join(f"{name} {version}" for name, version in named.items() if version)


def differences(found: Compared, output: str) -> None:
    """Prints the differences, as `table` or `json`."""
    if output == "json":
        print(json.dumps(_document(found), indent=2, sort_keys=True))
        return
    for each in found.differences:
        print(f"{_where(each, found)}{plain(each.field)}: {_value(each, each.a)} -> {_value(each, each.b)}")
    if not found.differences:
        print(f"no difference: {found.processes} processes on {found.nodes} nodes")
    if found.unknown:
        print(f"not compared, only one of the two has it: {', '.join(map(plain, found.unknown))}")


def _where(each: Difference, found: Compared) -> str:
    """The prefix ``rank 2 (worker-0): ``; empty for the whole job."""
    if not each.ranks:
        return ""
    if len(each.ranks) == found.processes > 1:
        return "every rank: "
    names = (_short_names(nodes, job) for nodes, job in zip(each.nodes, found.jobs, strict=True))
    ranks = ", ".join(_ranges(each.ranks))
    return f"rank{'s' if len(each.ranks) > 1 else ''} {ranks} ({' -> '.join(dict.fromkeys(names))}): "


def _short_names(nodes: Sequence[str], job: str) -> str:
    """The nodes' names without the job's name, which differs between two jobs."""
    short = [plain(node.removeprefix(f"{job}-")) for node in nodes]
    return ", ".join(short[:_SHOWN] + ["..."] * (len(short) > _SHOWN))


def _ranges(numbers: Iterable[int]) -> list[str]:
    """``0, 1, 2, 5`` as ``0-2, 5``."""
    found = []
    for _, run in groupby(enumerate(numbers), key=lambda pair: pair[1] - pair[0]):
        first, *rest = [number for _, number in run]
        found.append(f"{first}-{rest[-1]}" if rest else str(first))
    return found


def _value(each: Difference, value: object) -> str:
    if each.field.startswith("mask.") and isinstance(value, str):
        return plain(_short(value)) if value else '""'
    if each.field == "jobFile":
        return plain(value)[:_HASH]
    if value is None or value == "":
        return _NOTHING.get(each.field.partition(".")[0], "not known")
    return plain(value)


def _document(found: Compared) -> dict[str, Any]:
    """The JSON document of docs/cli.md."""
    return {
        "equal": not found.differences,
        "processes": found.processes,
        "differences": [
            {
                "field": each.field,
                "a": each.a,
                "b": each.b,
                "ranks": list(each.ranks) or None,
                "nodes": {"a": list(each.nodes[0]), "b": list(each.nodes[1])} if each.ranks else None,
            }
            for each in found.differences
        ],
        "notCompared": list(found.unknown),
    }

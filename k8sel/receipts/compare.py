"""Compares two starts of a job, process by process. Pure.

Processes are matched by rank, not by the names of their nodes, which contain the job's name. A field that only one of
two receipts can have, because an older version wrote the other, is not a difference: it is listed as not compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from k8sel.receipts.collect import Process, Receipts, natural
from k8sel.receipts.lines import Fields

# Fields that name the writer and its place, which always differ, and fields that are compared separately.
_OWN = ("node", "job", "jobFile", "rank", "ranks", "mode", "nodes", "processesPerNode")
# Optional keys: where one is absent, its subject is absent. Other keys are missing only in an older receipt.
_OPEN = ("mask", "libraries", "library", "variables")
_NUMBER = re.compile(r"\[[0-9]+\]")  # the number of a device of a process


class Difference(Struct, frozen=True, kw_only=True):
    """A field that differs; None means not known, or absent."""

    field: str
    a: Any
    b: Any
    ranks: tuple[int, ...] = ()  # the processes that differ; () is the whole job
    nodes: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # their nodes in the first and in the second start


class Compared(Struct, frozen=True, kw_only=True):
    """The result of comparing two starts."""

    jobs: tuple[str, str]
    processes: int  # in both starts
    nodes: int  # in the first start
    differences: tuple[Difference, ...]
    unknown: tuple[str, ...]  # fields that only one of them has


def compare(a: Receipts, b: Receipts) -> Compared:
    """Returns what differs in ``b``."""
    mine, theirs = _by_rank(a), _by_rank(b)
    pairs = {rank: (mine[rank], theirs[rank]) for rank in mine if rank in theirs}  # the processes in both starts
    found: dict[_Change, list[int]] = {}
    unknown: dict[str, None] = {}
    for rank, (one, other) in pairs.items():
        for change in _changes(_flat(one), _flat(other), unknown):
            found.setdefault(change, []).append(rank)
    differences = [_difference(change, ranks, pairs) for change, ranks in found.items()]
    return Compared(
        jobs=(a.job, b.job),
        processes=len(pairs),
        nodes=len(a.named()),
        differences=(*_of_the_job(a, b), *sorted(differences, key=_order)),
        unknown=tuple(unknown),
    )


_Change = tuple[
    str, str, str
]  # field, before, after; the last two as JSON, so that equal changes of several ranks are one


def _difference(change: _Change, ranks: list[int], pairs: Mapping[int, tuple[Process, Process]]) -> Difference:
    field, before, after = change
    mine, theirs = (dict.fromkeys(pairs[rank][side].node for rank in ranks) for side in (0, 1))
    nodes = (tuple(mine), tuple(theirs))
    return Difference(field=field, a=json.loads(before), b=json.loads(after), ranks=tuple(ranks), nodes=nodes)


_FIRST = ("device", "devices", "positions", "mask", "threads", "driver", "runtime", "libraries")


def _order(each: Difference) -> tuple[int, tuple[int, ...], tuple[str, int, str]]:
    """Returns the sort key of a difference: the fields that users look at first come first."""
    name = each.field.partition(".")[0].partition("[")[0]
    return _FIRST.index(name) if name in _FIRST else len(_FIRST), each.ranks, natural(each.field)


def _by_rank(receipts: Receipts) -> dict[int, Process]:
    """Returns processes by rank; without ranks, by node and by process on the node."""
    each = receipts.processes
    if any(process.rank is None for process in each):
        return dict(enumerate(each))
    return {process.rank or 0: process for process in each}


def _of_the_job(a: Receipts, b: Receipts) -> Iterator[Difference]:
    pairs = {
        "jobFile": (_job_file(a), _job_file(b)),
        "nodes": (len(a.named()), len(b.named())),
        "processes": (len(a.processes), len(b.processes)),
        "starts": (_starts(a), _starts(b)),
    }
    for field, (before, after) in pairs.items():
        if before != after:
            yield Difference(field=field, a=before, b=after)


def _job_file(receipts: Receipts) -> str | None:
    return next((str(start["jobFile"]) for start in receipts.starts if start.get("jobFile")), None)


def _starts(receipts: Receipts) -> int:
    """Returns how often the job's most restarted node was started."""
    return 1 + max(receipts.earlier.values(), default=0)


def _flat(process: Process) -> Fields:
    """Returns all fields of a process, by dotted names."""
    shared = {name: value for name, value in process.start.items() if name not in _OWN}
    own = {name: value for name, value in process.own.items() if name not in ("localRank", "devices")}
    devices = process.own.get("devices", [])
    numbered = {f"device{f'[{n}]' if len(devices) > 1 else ''}": device for n, device in enumerate(devices)}
    return dict(_leaves({**numbered, "devices": len(devices), **own, **shared}))


def _leaves(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield f"{prefix}{name}", {}  # marks that the field is present
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _changes(a: Fields, b: Fields, unknown: dict[str, None]) -> Iterator[_Change]:
    """Yields the fields in which two processes differ; adds fields that only one can have to ``unknown``."""
    for field in dict.fromkeys((*a, *b)):
        if (field in a) != (field in b) and not _is_absent(field, a if field in b else b):
            if field.rpartition(".")[0] not in unknown and not _is_device(field, a, b):
                unknown[_NUMBER.sub("", field)] = None
            continue
        before, after = (json.dumps(side.get(field), sort_keys=True) for side in (a, b))
        if before != after:
            yield field, before, after


def _is_absent(field: str, other: Fields) -> bool:
    """Reports whether the side without the field shows that its subject is absent."""
    parent = field.partition(".")[0]
    return parent != field and parent in _OPEN and parent in other


def _is_device(field: str, a: Fields, b: Fields) -> bool:
    """Reports whether the field belongs to a device that only one side has; the count of devices shows that."""
    return field.startswith("device") and a.get("devices") != b.get("devices")

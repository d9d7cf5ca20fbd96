"""Two starts of a job, process by process: what was different. Pure.

Processes are matched by rank, not by the names of their nodes, which have the job's own in them. What only one of two
receipts can say, because the other was written by an older version, is no difference: it is said to be not compared.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from k8sel.receipts.collect import Fields, Process, Receipts, natural

# Who wrote the receipt and where, which is never the same twice; and what is compared by itself.
_OWN = ("node", "job", "jobFile", "rank", "ranks", "mode", "nodes", "processesPerNode")
# Keys that come and go with what is there: without one, there is none. Others are missing in an older receipt.
_OPEN = ("mask", "libraries")
_NUMBER = re.compile(r"\[[0-9]+\]")  # of a device among a process's own


class Difference(Struct, frozen=True, kw_only=True):
    """One thing that was not the same; None is "not known", or "not there"."""

    field: str
    a: Any
    b: Any
    ranks: tuple[int, ...] = ()  # of the processes that it is true for; () is the whole job
    nodes: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())  # theirs, in the first and in the second


class Compared(Struct, frozen=True, kw_only=True):
    """What was found of two starts."""

    jobs: tuple[str, str]
    processes: int  # that both have
    nodes: int  # of the first
    differences: tuple[Difference, ...]
    unknown: tuple[str, ...]  # fields that only one of them says


def compare(a: Receipts, b: Receipts) -> Compared:
    """What was different in ``b``."""
    pairs = _pairs(a, b)
    found: dict[_Change, list[int]] = {}
    unknown: dict[str, None] = {}
    for rank, (mine, theirs) in pairs.items():
        for change in _changes(_flat(mine), _flat(theirs), unknown):
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
]  # field, before, after; the last two as JSON, since what is the same for many is said once


def _difference(change: _Change, ranks: list[int], pairs: Mapping[int, tuple[Process, Process]]) -> Difference:
    field, before, after = change
    mine, theirs = (dict.fromkeys(pairs[rank][side].node for rank in ranks) for side in (0, 1))
    nodes = (tuple(mine), tuple(theirs))
    return Difference(field=field, a=json.loads(before), b=json.loads(after), ranks=tuple(ranks), nodes=nodes)


_FIRST = ("device", "devices", "positions", "mask", "threads", "driver", "runtime", "libraries")


def _order(each: Difference) -> tuple[int, tuple[int, ...], tuple[str, int, str]]:
    """What is asked for first comes first."""
    name = each.field.partition(".")[0].partition("[")[0]
    return _FIRST.index(name) if name in _FIRST else len(_FIRST), each.ranks, natural(each.field)


def _pairs(a: Receipts, b: Receipts) -> dict[int, tuple[Process, Process]]:
    """The processes that both have, by rank."""
    mine, theirs = _by_rank(a), _by_rank(b)
    return {rank: (mine[rank], theirs[rank]) for rank in mine if rank in theirs}


def _by_rank(receipts: Receipts) -> dict[int, Process]:
    """Processes by rank; where no launcher said ranks, by their place: nodes in order, and on each its processes."""
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
    """How often the job's most restarted node was started."""
    return 1 + max(receipts.earlier.values(), default=0)


def _flat(process: Process) -> Fields:
    """Everything that is said of a process, by dotted names."""
    shared = {name: value for name, value in process.start.items() if name not in _OWN}
    own = {name: value for name, value in process.own.items() if name not in ("localRank", "devices")}
    devices = process.own.get("devices", [])
    numbered = {f"device{f'[{n}]' if len(devices) > 1 else ''}": device for n, device in enumerate(devices)}
    return dict(_leaves({**numbered, "devices": len(devices), **own, **shared}))


def _leaves(fields: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, dict):
            yield f"{prefix}{name}", {}  # that it is there at all
            yield from _leaves(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _changes(a: Fields, b: Fields, unknown: dict[str, None]) -> Iterator[_Change]:
    """The fields in which two processes differ; those that only one of them can say go to ``unknown``."""
    for field in dict.fromkeys((*a, *b)):
        if (field in a) != (field in b) and not _is_absent(field, a if field in b else b):
            if not _below(field, unknown) and not _is_device(field, a, b):
                unknown[_NUMBER.sub("", field)] = None
            continue
        before, after = (json.dumps(side.get(field), sort_keys=True) for side in (a, b))
        if before != after:
            yield field, before, after


def _is_absent(field: str, other: Fields) -> bool:
    """Whether the other side, which lacks the field, says with that that there is none."""
    parent = field.partition(".")[0]
    return parent != field and parent in _OPEN and parent in other


def _below(field: str, unknown: Iterable[str]) -> bool:
    return field.rpartition(".")[0] in unknown


def _is_device(field: str, a: Fields, b: Fields) -> bool:
    """Whether it is of a device that the other side has not got: their number says that already."""
    return field.startswith("device") and a.get("devices") != b.get("devices")

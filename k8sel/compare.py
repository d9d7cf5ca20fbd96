"""Two starts of a job, process by process: what was different. Pure.

Processes are matched by rank, not by the names of their nodes, which have the job's own in them. What only one of two
receipts can say, because the other was written by an older version, is no difference: it is said to be not compared.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from k8sel.receipts import Fields, Process, Receipts, natural

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
    mine, theirs = _by_rank(a), _by_rank(b)
    both = [rank for rank in mine if rank in theirs]
    found: dict[tuple[str, str, str], list[tuple[int, Any, Any]]] = {}
    unknown: dict[str, None] = {}
    for rank in both:
        for field, before, after in _differing(_flat(mine[rank]), _flat(theirs[rank]), unknown):
            found.setdefault((field, repr(before), repr(after)), []).append((rank, before, after))
    groups = [
        Difference(
            field=field,
            a=each[0][1],
            b=each[0][2],
            ranks=tuple(rank for rank, _, _ in each),
            nodes=(_nodes(mine[rank] for rank, _, _ in each), _nodes(theirs[rank] for rank, _, _ in each)),
        )
        for (field, _, _), each in found.items()
    ]
    ordered = sorted(groups, key=lambda each: (_place(each.field), each.ranks, natural(each.field)))
    return Compared(
        jobs=(a.job, b.job),
        processes=len(both),
        nodes=len(a.named()),
        differences=(*_of_the_job(a, b), *ordered),
        unknown=tuple(unknown),
    )


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


def _differing(a: Fields, b: Fields, unknown: dict[str, None]) -> Iterator[tuple[str, Any, Any]]:
    """The fields in which two processes differ; those that only one of them can say go to ``unknown``."""
    for field in dict.fromkeys((*a, *b)):
        if (field in a) != (field in b) and not _is_absent(field, a if field in b else b):
            if not _below(field, unknown) and not _is_device(field, a, b):
                unknown[_NUMBER.sub("", field)] = None
        elif a.get(field) != b.get(field):
            yield field, a.get(field), b.get(field)


def _is_absent(field: str, other: Fields) -> bool:
    """Whether the other side, which lacks the field, says with that that there is none."""
    parent = field.partition(".")[0]
    return parent != field and parent in _OPEN and parent in other


def _below(field: str, unknown: Iterable[str]) -> bool:
    return field.rpartition(".")[0] in unknown


def _is_device(field: str, a: Fields, b: Fields) -> bool:
    """Whether it is of a device that the other side has not got: their number says that already."""
    return field.startswith("device") and a.get("devices") != b.get("devices")


_FIRST = ("device", "devices", "positions", "mask", "threads", "driver", "runtime", "libraries")


def _place(field: str) -> int:
    """What is asked for first comes first."""
    name = field.partition(".")[0].partition("[")[0]
    return _FIRST.index(name) if name in _FIRST else len(_FIRST)


def _nodes(processes: Iterable[Process]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.node for each in processes))

"""The receipts of a job: each start leaves one JSON line in a log; here they become what each rank had. Pure.

A log may be anything: what carries the receipts' mark and is none is counted, and what a receipt lacks is not known.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from k8sel.entrypoint.report import RECEIPT

VERSION = 1
_DIGITS = 9  # of a rank: more is no number that anybody gave
Fields = Mapping[str, Any]  # a receipt, as its start wrote it


class Line(Struct, frozen=True, kw_only=True):
    """A line of a log, and whose it is."""

    text: str
    node: str | None = None  # None: the receipt says it


class Process(Struct, frozen=True, kw_only=True):
    """One process, as the last receipt that names it says."""

    node: str
    rank: int | None  # None: no launcher said it
    local_rank: int
    own: Fields  # of this process alone: devices, positions
    start: Fields  # the whole receipt


class Receipts(Struct, frozen=True, kw_only=True):
    """What is known of one job's start."""

    job: str
    nodes: int | None  # that the job has to have; None: not known
    starts: tuple[Fields, ...]  # the last of each node, or of each process where it has its own; by node and rank
    earlier: Mapping[str, int]  # node -> starts before its last one
    broken: int = 0  # lines with the mark that cannot be read
    remarks: tuple[str, ...] = ()  # of whoever gathered them

    @property
    def processes(self) -> list[Process]:
        """Each process once, by rank. What a process says of itself counts more than what its node says of all."""
        found = {(each.node, each.local_rank): each for start in self.starts for each in _processes(start)}
        alone = len({node for node, _ in found}) == 1
        known = [
            replace(each, rank=each.local_rank) if alone and each.rank is None else each for each in found.values()
        ]
        return sorted(known, key=lambda each: (each.rank is None, each.rank or 0, natural(each.node), each.local_rank))

    def named(self) -> list[str]:
        """The nodes with a receipt, in the order of their first ranks."""
        return list(dict.fromkeys(each.node for each in self.processes))

    def notes(self) -> list[str]:
        """What a reader has to know beside the receipts."""
        return [*self._missing(), *self.remarks, *self._restarted(), *self._unreadable()]

    def _missing(self) -> Iterator[str]:
        here: dict[str, list[Process]] = {}
        for each in self.processes:
            here.setdefault(each.node, []).append(each)
        if self.nodes is not None and len(here) < self.nodes:
            yield f"{self.nodes} nodes planned, and receipts of {len(here)}: {', '.join(here)}"
        for node, processes in here.items():
            of = max(_number(each.start, "processesPerNode") or 0 for each in processes)
            if len(processes) < of:
                yield f"node {node}: {of} processes planned, and receipts of {len(processes)}"

    def _restarted(self) -> Iterator[str]:
        for node, number in self.earlier.items():
            yield f"node {node} was started {number + 1} times: the last one is shown"

    def _unreadable(self) -> Iterator[str]:
        if self.broken:
            lines = "1 receipt is" if self.broken == 1 else f"{self.broken} receipts are"
            yield f"{lines} cut off or mixed with other output, and left out"

    def document(self) -> dict[str, Any]:
        """The whole as JSON has it: to be kept, read again and compared."""
        return {
            "version": VERSION,
            "job": self.job,
            "nodes": self.nodes,
            "notes": self.notes(),
            "earlier": dict(self.earlier),
            "broken": self.broken,
            "receipts": list(self.starts),
        }


class Mixed(ValueError):
    """Receipts of several jobs; the text names them."""


def collect(lines: Iterable[Line], nodes: int | None = None) -> Receipts | None:
    """The receipts in the lines of one job's logs; None where there is none. Raises Mixed."""
    starts: dict[tuple[Any, ...], Fields] = {}
    earlier: dict[tuple[Any, ...], int] = {}
    broken = 0
    for line in lines:
        for text in line.text.split(RECEIPT)[1:]:  # lines of two processes may have become one
            fields = _read(text, line.node)
            if fields is None:
                broken += 1
                continue
            key = _part(fields)
            if key in starts:
                earlier[key] = earlier.get(key, 0) + 1
            starts.pop(key, None)  # a later start comes later
            starts[key] = fields
    return _receipts(list(starts.values()), nodes, _by_node(earlier), broken)


def saved(data: bytes) -> Receipts | None:
    """The receipts of a document that `document` made; None where ``data`` is something else. Raises ValueError."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("receipts"), list):
        return None
    if document.get("version") != VERSION:
        raise ValueError(f"it is of version {document.get('version')}, and this k8sel reads version {VERSION}")
    starts = [_checked(each) for each in document["receipts"]]
    if not starts or None in starts:
        raise ValueError("its receipts cannot be read")
    earlier = {node: number for node, number in _dict(document, "earlier").items() if type(number) is int}
    good = [each for each in starts if each is not None]
    found = _receipts(good, _number(document, "nodes"), earlier, _number(document, "broken") or 0)
    said = document.get("notes")
    notes = [note for note in said if isinstance(note, str)] if isinstance(said, list) else []
    return found and replace(found, remarks=tuple(note for note in notes if note not in found.notes()))


def _number(fields: Fields, name: str) -> int | None:
    """A whole number; None where there is anything else. JSON's true is none, whatever Python says."""
    found = fields.get(name)
    return found if type(found) is int else None


def _dict(document: Fields, name: str) -> Fields:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def plain(value: object) -> str:
    """A value out of a log on one line, without what a terminal would obey."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return (text if text.isprintable() else ascii(text)[1:-1]) or "-"


def natural(name: str) -> tuple[str, int, str]:
    """What names are sorted by: ``worker-10`` comes after ``worker-9``."""
    return name.rstrip("0123456789"), len(name), name


def _receipts(starts: list[Fields], nodes: int | None, earlier: Mapping[str, int], broken: int) -> Receipts | None:
    jobs = sorted({str(each.get("job") or "") for each in starts})
    if len(jobs) > 1:
        raise Mixed(", ".join(map(plain, jobs)))
    if not starts:
        return None
    said = [number for each in starts if (number := _number(each, "nodes")) is not None]
    ordered = sorted(starts, key=lambda each: natural(each["node"]))  # stable: a node's own starts stay in their order
    return Receipts(
        job=jobs[0], nodes=nodes or max(said, default=None), starts=tuple(ordered), earlier=earlier, broken=broken
    )


def _read(text: str, node: str | None) -> Fields | None:
    """The receipt that a text begins with, whatever is behind it; None where it cannot be read."""
    try:
        found, _ = json.JSONDecoder(parse_constant=_refused).raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    fields = _checked(found)
    return {**fields, "node": node} if fields and node else fields


def _refused(constant: str) -> None:
    """Python reads NaN, which JSON has not, and which is not even equal to itself."""
    raise ValueError(constant)


def _checked(found: object) -> Fields | None:
    """A receipt with all that the rest relies on: a node, and ranks that are numbered."""
    if not isinstance(found, dict) or not isinstance(found.get("node"), str):
        return None
    ranks = found.get("ranks")
    if not isinstance(ranks, list) or not ranks or not all(map(_is_rank, ranks)):
        return None
    return found


def _is_rank(found: object) -> bool:
    if not isinstance(found, dict) or type(found.get("localRank")) is not int:
        return False
    devices = found.get("devices", [])
    return isinstance(devices, list) and all(isinstance(device, dict) for device in devices)


def _part(fields: Fields) -> tuple[Any, ...]:
    """What of a job started: a node for all its processes, or one of them. Two of the same are a start and its next."""
    job, mode = str(fields.get("job") or ""), str(fields.get("mode"))
    return (fields["node"], job, mode, *(rank["localRank"] for rank in fields["ranks"]))


def _by_node(earlier: Mapping[tuple[Any, ...], int]) -> dict[str, int]:
    """Earlier starts of each node: of its processes, which a launcher may have started again, the most."""
    found: dict[str, int] = {}
    for (node, *_), number in earlier.items():
        found[node] = max(number, found.get(node, 0))
    return found


def _processes(start: Fields) -> Iterator[Process]:
    ranks = start["ranks"]
    for own in ranks:
        local = own["localRank"]
        yield Process(node=start["node"], rank=_rank(start, local, len(ranks)), local_rank=local, own=own, start=start)


def _rank(start: Fields, local: int, number: int) -> int | None:
    """A process's rank in the whole job: a node that starts several was given its own number under that name."""
    said = str(start.get("rank") or "")
    if not (said.isascii() and said.isdecimal()) or len(said) > _DIGITS:
        return None
    return int(said) * number + local if number > 1 else int(said)

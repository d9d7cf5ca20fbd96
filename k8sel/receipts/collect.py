"""Collects the receipts of a job, one JSON line in the log of each start, into the devices of each rank. Pure.

A log may hold anything: a line with the receipts' mark that cannot be read is counted, and a missing field is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from k8sel.entrypoint.report import RECEIPT
from k8sel.wording import one_line

VERSION = 1
_DIGITS = 9  # of a rank: a longer number is not a rank
Fields = Mapping[str, Any]  # a receipt as its start wrote it


class Line(Struct, frozen=True, kw_only=True):
    """A line of a log, and its node."""

    text: str
    node: str | None = None  # None: the receipt names it


class Process(Struct, frozen=True, kw_only=True):
    """One process, as in the last receipt that names it."""

    node: str
    rank: int | None  # None: no launcher gave one
    local_rank: int
    own: Fields  # the fields of this process alone: devices, positions
    start: Fields  # the whole receipt


class Receipts(Struct, frozen=True, kw_only=True):
    """The known facts about one job's start."""

    job: str
    nodes: int | None  # planned for the job; None: not known
    starts: tuple[Fields, ...]  # the last receipt of each node or process, by node and rank
    earlier: Mapping[str, int]  # node -> starts before its last one
    broken: int = 0  # receipts that cannot be read
    remarks: tuple[str, ...] = ()  # from the code that gathered the logs

    @property
    def processes(self) -> list[Process]:
        """Each process once, by rank. A process's own receipt replaces that of its node."""
        found = {(each.node, each.local_rank): each for start in self.starts for each in _processes(start)}
        alone = len({node for node, _ in found}) == 1
        known = [
            replace(each, rank=each.local_rank) if alone and each.rank is None else each for each in found.values()
        ]
        return sorted(known, key=lambda each: (each.rank is None, each.rank or 0, natural(each.node), each.local_rank))

    def named(self) -> list[str]:
        """Returns the nodes with a receipt, in the order of their first ranks."""
        return list(dict.fromkeys(each.node for each in self.processes))

    def notes(self) -> list[str]:
        """Returns the notes on missing, repeated and unreadable receipts."""
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
        """Returns the receipts as a JSON document, to keep, read again and compare."""
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
    """Raised for receipts of several jobs; the text names the jobs."""


def collect(lines: Iterable[Line], nodes: int | None = None) -> Receipts | None:
    """Returns the receipts in the lines of one job's logs; None where there are none. Raises Mixed."""
    starts: dict[tuple[Any, ...], Fields] = {}
    earlier: dict[tuple[Any, ...], int] = {}
    broken = 0
    for line in lines:
        for text in line.text.split(RECEIPT)[1:]:  # lines of two processes may run into one
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
    """Reads the receipts of a document from `document`; None where ``data`` is not one. Raises ValueError."""
    try:
        document = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError):
        return None
    if not isinstance(document, dict) or not isinstance(document.get("receipts"), list):
        return None
    if document.get("version") != VERSION:
        raise ValueError(f"its version is {document.get('version')}, and this k8sel reads version {VERSION}")
    starts = [_checked(each) for each in document["receipts"]]
    if not starts or None in starts:
        raise ValueError("its receipts cannot be read")
    earlier = {node: number for node, number in _dict(document, "earlier").items() if type(number) is int}
    good = [each for each in starts if each is not None]
    found = _receipts(good, _number(document, "nodes"), earlier, _number(document, "broken") or 0)
    listed = document.get("notes")
    notes = [note for note in listed if isinstance(note, str)] if isinstance(listed, list) else []
    return found and replace(found, remarks=tuple(note for note in notes if note not in found.notes()))


def _number(fields: Fields, name: str) -> int | None:
    """Returns a whole number; None for any other value. JSON's true is not a number, although bool is an int."""
    found = fields.get(name)
    return found if type(found) is int else None


def _dict(document: Fields, name: str) -> Fields:
    found = document.get(name)
    return found if isinstance(found, dict) else {}


def plain(value: object) -> str:
    """Returns a value from a log on one line, without control characters."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
    return one_line(text) or "-"


def natural(name: str) -> tuple[str, int, str]:
    """Returns the sort key of a name: ``worker-10`` comes after ``worker-9``."""
    return name.rstrip("0123456789"), len(name), name


def _receipts(starts: list[Fields], nodes: int | None, earlier: Mapping[str, int], broken: int) -> Receipts | None:
    jobs = sorted({str(each.get("job") or "") for each in starts})
    if len(jobs) > 1:
        raise Mixed(", ".join(map(plain, jobs)))
    if not starts:
        return None
    planned = [number for each in starts if (number := _number(each, "nodes")) is not None]
    ordered = sorted(starts, key=lambda each: natural(each["node"]))  # stable: a node's own starts stay in their order
    return Receipts(
        job=jobs[0], nodes=nodes or max(planned, default=None), starts=tuple(ordered), earlier=earlier, broken=broken
    )


def _read(text: str, node: str | None) -> Fields | None:
    """Returns the receipt at the start of a text, whatever follows it; None where it cannot be read."""
    try:
        found, _ = json.JSONDecoder(parse_constant=_refused).raw_decode(text.lstrip())
    except (ValueError, RecursionError):
        return None
    fields = _checked(found)
    return {**fields, "node": node} if fields and node else fields


def _refused(constant: str) -> None:
    """Refuses NaN and infinities, which Python's decoder reads and JSON does not have."""
    raise ValueError(constant)


def _checked(found: object) -> Fields | None:
    """Returns a receipt with the fields that the rest needs, a node and numbered ranks; else None."""
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
    """Returns the key of a start: a node or one process of it. A second start with the same key is a restart."""
    job, mode = str(fields.get("job") or ""), str(fields.get("mode"))
    return (fields["node"], job, mode, *(rank["localRank"] for rank in fields["ranks"]))


def _by_node(earlier: Mapping[tuple[Any, ...], int]) -> dict[str, int]:
    """Returns the earlier starts of each node: those of its most restarted process."""
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
    """Returns a process's rank in the job; on a node that starts several, the receipt's rank is the node's."""
    given = str(start.get("rank") or "")
    if not (given.isascii() and given.isdecimal()) or len(given) > _DIGITS:
        return None
    return int(given) * number + local if number > 1 else int(given)

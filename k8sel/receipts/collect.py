"""Collects the receipts of a job, one JSON line in the log of each start, into the devices of each rank. Pure.

A log may hold anything: a line with the receipts' mark that cannot be read is counted, and a missing field is unknown.
The first receipt of a container's run counts, because the entrypoint writes it before the program starts.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from k8sel.receipts.lines import Fields, Line, checked, receipts
from k8sel.receipts.runs import Runs, shortened
from k8sel.wording import one_line

VERSION = 1
_DIGITS = 9  # of a rank: a longer number is not a rank


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
    contradictions: tuple[str, ...] = ()  # between receipts: a start wrote at most one of them

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
        """Returns the notes on contradictory, missing, repeated and unreadable receipts."""
        each = (self._missing(), self.remarks, self._restarted(), self._unreadable())
        return [
            *(f"contradiction: {text}" for text in self.contradictions),
            *(note for notes in each for note in notes),
        ]

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
            "contradictions": list(self.contradictions),
            "receipts": list(self.starts),
        }


class Mixed(ValueError):
    """Raised for receipts of several jobs; the text names the jobs."""


def collect(lines: Iterable[Line], nodes: int | None = None, job: str | None = None) -> Receipts | None:
    """Returns the receipts in the lines of one job's logs; None where there are none. Raises Mixed.

    ``job``: its name, where the caller knows it. Receipts of other jobs are left out then.
    """
    runs, broken = Runs(job), 0
    for line in lines:
        for fields in receipts(line.text):
            if fields is None:
                broken += 1
            else:
                runs.take(line, fields)
    found = _receipts(runs.starts(), nodes, _by_node(runs.earlier), broken)
    return found and replace(found, contradictions=(*runs.contradictions(), *_impossible(found)))


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
    starts = [checked(each) for each in document["receipts"]]
    if not starts or None in starts:
        raise ValueError("its receipts cannot be read")
    earlier = {node: number for node, number in _dict(document, "earlier").items() if type(number) is int}
    good = [each for each in starts if each is not None]
    found = _receipts(good, _number(document, "nodes"), earlier, _number(document, "broken") or 0)
    found = found and replace(found, contradictions=tuple(_texts(document, "contradictions")))
    notes = _texts(document, "notes")
    return found and replace(found, remarks=tuple(note for note in notes if note not in found.notes()))


def _number(fields: Fields, name: str) -> int | None:
    """Returns a whole number; None for any other value. JSON's true is not a number, although bool is an int."""
    found = fields.get(name)
    return found if type(found) is int else None


def _texts(document: Fields, name: str) -> list[str]:
    found = document.get(name)
    return [text for text in found if isinstance(text, str)] if isinstance(found, list) else []


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


def _impossible(found: Receipts) -> Iterator[str]:
    """Yields what no run of one job writes: more nodes or processes than planned, or one rank twice."""
    if not found.job:  # started by hand: each node was planned alone
        return
    names = found.named()
    if found.nodes is not None and len(names) > found.nodes:
        yield f"{found.nodes} nodes planned, and receipts of {len(names)}: {shortened(names)}"
    ranks: dict[tuple[int, str], list[str]] = {}
    for each in found.processes:
        if each.rank is not None:
            ranks.setdefault((each.rank, str(each.start.get("mode"))), []).append(f"{each.node}/{each.local_rank}")
    for (rank, _), places in ranks.items():
        if len(places) > 1:
            yield f"rank {rank} is that of {len(places)} processes: {shortened(places)}"


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

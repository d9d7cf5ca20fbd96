"""Decides which receipts of a log count: the first of each container's run, by the node that wrote it. Pure.

A program's own output comes later in the same log. A receipt of it that differs is a contradiction, and is named.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct

from k8sel.receipts.lines import Fields, Line

_NODE = re.compile(r"(?P<job>.+)-(?:master|worker)-\d+", re.ASCII)
_LAUNCHER = re.compile(r"(?P<job>.+)-launcher(?:-[a-z0-9]{5})?", re.ASCII)  # a Job adds five characters to its pods
# A process's own receipt and its node's agree in these. Masks, threads and libraries are those of different programs.
_OF_BOTH = (
    *("jobFile", "nodes", "processesPerNode", "check", "accelerator", "how", "driver", "runtime", "library"),
    *("python", "numaNodes"),
)
_SHOWN = 8  # names in a message, and messages
_LENGTH = 64  # characters of a name: one of Kubernetes' has 63

Part = tuple[Any, ...]  # a node or one process of it, in one of the modes


class _Start(Struct, frozen=True, kw_only=True):
    """A receipt that counts, and the line that it comes from."""

    fields: Fields
    line: Line


class Runs:
    """The receipts that count, and the contradictions to them."""

    def __init__(self, job: str | None) -> None:
        self.earlier: dict[Part, int] = {}  # starts before the last one
        self._starts: dict[Part, _Start] = {}
        self._jobs: dict[str, str] = {}  # pod or container -> the job that its first receipt names
        self._job = job
        self._found: dict[str, None] = {}  # contradictions
        self._more = False

    def take(self, line: Line, fields: Fields) -> None:
        """Takes in one receipt."""
        node = writer(line.speaker, fields)
        foreign = self._foreign(line.speaker, str(fields.get("job") or ""))
        if foreign is not None:
            self._add(f"{_by(line)} of job {_short(foreign)}: it is left out")
        elif node is None:
            self._add(f"{_by(line)} for node {_short(fields['node'])}: it is left out")
        else:
            self._settle(_Start(fields={**fields, "node": node}, line=line))

    def _settle(self, start: _Start) -> None:
        """Counts the first receipt of each run, and equal ones as restarts."""
        key = _part(start.fields)
        known = self._starts.get(key)
        if known is None:
            self._starts[key] = start
        elif known.line.run != start.line.run and known.line.speaker == start.line.speaker:
            self.earlier[key] = self.earlier.get(key, 0) + 1
            del self._starts[key]  # a later run comes later
            self._starts[key] = start
        elif known.fields == start.fields:
            self.earlier[key] = self.earlier.get(key, 0) + 1
        else:
            names = [name for name, value in known.fields.items() if start.fields.get(name) != value]
            self._add(
                f"receipts of {_place(start.fields)} differ in {shortened(names or ['keys'])}: the first is shown"
            )

    def _foreign(self, speaker: str | None, job: str) -> str | None:
        """Returns the job of a receipt that is not the job of its writer; None where it is, or is not known."""
        if self._job is not None:
            return None if job == self._job else job
        own = job if speaker is None else self._jobs.setdefault(speaker, job)
        return None if job == own else job

    def _add(self, text: str) -> None:
        if len(self._found) < _SHOWN:
            self._found[text] = None
        elif text not in self._found:
            self._more = True

    def starts(self) -> list[Fields]:
        """Returns the receipts that count. A process's own receipt that contradicts its node's is left out."""
        everyone: dict[Part, _Start] = {}
        result = []
        for start in self._starts.values():
            clash = [name for rank in start.fields["ranks"] for name in self._clashes(start, rank, everyone)]
            if clash:
                names = shortened(list(dict.fromkeys(clash)))
                self._add(f"receipts of {_place(start.fields)} differ in {names}: the first is shown")
            else:
                result.append(start.fields)
        return result

    def _clashes(self, start: _Start, rank: Fields, everyone: dict[Part, _Start]) -> Iterator[str]:
        """Yields the fields in which two receipts of one process differ, if they are of one run."""
        job = str(start.fields.get("job"))  # a log may hold any value there, also a list
        first = everyone.setdefault((start.fields["node"], job, rank["localRank"]), start)
        if first is start or first.line.run != start.line.run:
            return
        modes, by_hand = (first.fields.get("mode"), start.fields.get("mode")), not start.fields.get("job")
        # A node starts before its ranks. By hand, its start does not know the command of its ranks.
        if modes == ("rank", "node") or (
            modes[1] == "rank" and first.fields.get("ownReceipts") is False and not by_hand
        ):
            yield "mode"
        yield from (name for name in _OF_BOTH if first.fields.get(name) != start.fields.get(name))
        (own, *_) = (each for each in first.fields["ranks"] if each["localRank"] == rank["localRank"])
        yield from (name for name in ("positions", "devices") if own.get(name) != rank.get(name))

    def contradictions(self) -> list[str]:
        """Returns the contradictions, as texts."""
        return [*self._found, *(["there are more contradictions"] if self._more else [])]


def writer(speaker: str | None, fields: Fields) -> str | None:
    """Returns the node that a receipt is of; None if its writer is another node of the job.

    With the host's network, a node has its machine's name. MPI's launcher prints the receipts of all ranks.
    """
    named = str(fields["node"])
    if speaker is None or speaker == named:
        return named
    launcher, other = _LAUNCHER.fullmatch(speaker), _NODE.fullmatch(named)
    if launcher and launcher["job"] in (fields.get("job"), other and other["job"]):
        return named
    node = _NODE.fullmatch(speaker)
    return None if other and node and other["job"] == node["job"] else speaker


def _part(fields: Fields) -> Part:
    """Returns the key of a start: a node or one process of it. A second start with the same key is a restart."""
    job, mode = str(fields.get("job") or ""), str(fields.get("mode"))
    return (fields["node"], job, mode, *(rank["localRank"] for rank in fields["ranks"]))


def _place(fields: Fields) -> str:
    ranks = fields["ranks"]
    own = f", local rank {ranks[0]['localRank']}" if len(ranks) == 1 else ""
    return f"node {_short(fields['node'])}{own}"


def _by(line: Line) -> str:
    return f"{line.speaker or 'a line'} has a receipt"


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= _LENGTH else f"{text[:_LENGTH]}..."


def shortened(names: Iterable[str]) -> str:
    """Lists the first of ``names``."""
    every = [_short(name) for name in names]
    return ", ".join(every[:_SHOWN] + ["..."] * (len(every) > _SHOWN))

"""Collects receipts from the logs of a job's pods, or from a file. Gives the reason for each missing receipt."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import IO, TYPE_CHECKING

from msgspec.structs import replace

from k8sel.cli import options
from k8sel.entrypoint import protocol
from k8sel.entrypoint.report import RECEIPT
from k8sel.errors import ClusterError
from k8sel.facts.kinds import JOB_KINDS
from k8sel.receipts.collect import Mixed, Receipts, collect, saved
from k8sel.receipts.lines import Line, prefixed

if TYPE_CHECKING:
    from k8sel.cluster import Cluster, JobRef, LogLine, PodStatus, Status

_ENTRYPOINT = "k8sel: "  # the prefix of its lines
_ROTATED = "The cluster keeps only the last part of a long log (the kubelet's containerLogMaxSize)"
_MAKE = "make it with `k8sel logs JOB > FILE` or `k8sel receipt JOB -o json > FILE`"
_FEWER = f"keep the lines of one job's last start: grep {RECEIPT.strip()} LOG"
MOST_RECEIPTS = 8 << 20  # bytes of receipts: 4,096 ranks write 2 MB; in memory they take ten times as much
MOST_LOG = 256 << 20  # bytes of a log: the kubelet keeps 10 MiB a container
LONGEST_LINE = 1 << 20  # bytes; a longer line is read in pieces
_MARK = RECEIPT.encode()
_LAUNCHER = "launcher"  # the role of the pod whose log has the output of the other pods' processes


class TooLong(Exception):
    """A log with more than k8sel reads; the text says of what."""


def is_file(name: str) -> bool:
    """Reports if ``name`` is a file: a job's name has neither dots nor slashes."""
    return name == "-" or "." in name or "/" in name or Path(name).is_file()


def of_file(file: str) -> Receipts:
    """The receipts in a log or a JSON document; - is standard input."""
    what = "standard input" if file == "-" else file
    try:
        with options.opened(file, absent=_MAKE) as stream:
            found = _read(stream)
    except TooLong as error:
        raise options.usage(f"{what} has {error}", _FEWER) from None
    except Mixed as jobs:
        raise options.usage(f"{what} has receipts of several jobs: {jobs}", "make one file for each job") from None
    except ValueError as error:
        raise options.usage(f"{what} cannot be read as receipts: {error}", "make it again with this k8sel") from None
    if found is None:
        raise options.usage(
            f"{what} has no receipt",
            "use a log from its start, or the output of `k8sel receipt JOB -o json`",
        )
    return found


def _read(stream: IO[bytes]) -> Receipts | None:
    """The receipts in a document, which has at most MOST_RECEIPTS bytes, or in a log."""
    start = stream.read(MOST_RECEIPTS + 1)
    found = saved(start) if len(start) <= MOST_RECEIPTS else None
    return found or collect(_lines(start + stream.readline(LONGEST_LINE), stream))


def _lines(start: bytes, stream: IO[bytes]) -> Iterator[Line]:
    """The lines with receipts of a log, which begins with ``start``. Raises TooLong for more than any job writes.

    Only a line feed ends a line, and a later piece of a long line begins none: a program prints what it likes in it.
    """
    read = kept = 0
    begins = True
    for data in chain(io.BytesIO(start), iter(lambda: stream.readline(LONGEST_LINE), b"")):
        read += len(data)
        _at_most(MOST_LOG, read, "bytes, and a log")
        if begins and _MARK in data:
            kept += len(data)
            _at_most(MOST_RECEIPTS, kept, "bytes of receipts, and a job")
            yield prefixed(data.decode(errors="replace").removesuffix("\n").removesuffix("\r"))
        begins = data.endswith(b"\n")


def _at_most(most: int, found: int, what: str) -> None:
    if found > most:
        raise TooLong(f"more than {most} {what} has at most {most}")


def of_job(at: Cluster, ref: JobRef) -> Receipts:
    """The receipts in the logs of a job's pods. Raises ClusterError if there is none."""
    from k8sel import cluster

    expected = cluster.variable(at, ref, protocol.VARIABLE)
    seen = _Logs(cluster.status(at, ref))
    cluster.logs(at, ref, follow=False, on_line=seen.take)
    planned = _planned(expected)
    found = collect(seen.receipts, planned, ref.name if planned else None)
    wanted = JOB_KINDS[seen.status.kind].nodes(seen.status.name, planned) if planned else ()
    if found is None:
        every = wanted or [pod.node for pod in seen.status.pods]
        why = [seen.why(node) for node in every] if expected else ["it starts without the entrypoint (mode: none)"]
        raise ClusterError(f"{ref.name} has no receipt: {'; '.join(dict.fromkeys(why))}")
    here = found.named()
    missing = set(wanted) - set(here) if len(here) < len(wanted) else set()
    remarks = (f"node {node}: no receipt: {seen.why(node)}" for node in wanted if node in missing)
    return replace(found, remarks=tuple(remarks))


def _planned(expected: str | None) -> int | None:
    """The number of nodes in the entrypoint's expectation; None if it is missing or of another version."""
    try:
        return protocol.parse(expected or "").nodes
    except ValueError:
        return None


@dataclass
class _Logs:
    """The receipts in the logs of a job's pods, and the facts that explain a missing one."""

    status: Status
    receipts: list[Line] = field(default_factory=list)
    spoken: dict[str, bool] = field(default_factory=dict)  # node with a log -> the entrypoint has written in it

    def take(self, line: LogLine) -> None:
        """Takes in one line of any pod."""
        if RECEIPT in line.text:
            self.receipts.append(Line(text=line.text, speaker=line.node, run=line.pod))
        own = line.text.startswith((_ENTRYPOINT, RECEIPT))
        self.spoken[line.node] = self.spoken.get(line.node, False) or own

    def why(self, node: str) -> str:
        """The reason why ``node`` has no receipt."""
        pod = self._pod(node)
        if pod is None:
            return "its pod and its log are deleted"
        if pod.phase == "Pending":
            return f"{pod.node} has not started"
        if pod.node not in self.spoken:
            return f"the log of {pod.node} is empty: it has no lines yet, or has lost its first lines. {_ROTATED}"
        if not self.spoken[pod.node]:
            return f"the first lines of {pod.node}'s log are lost. {_ROTATED}"
        return f"{pod.node} did not start the program: see `k8sel status`"

    def _pod(self, node: str) -> PodStatus | None:
        """The pod whose log has the output of the node's processes."""
        launchers = [pod for pod in self.status.pods if pod.role == _LAUNCHER]
        own = [pod for pod in self.status.pods if pod.node == node]
        return next(iter(launchers or own), None)

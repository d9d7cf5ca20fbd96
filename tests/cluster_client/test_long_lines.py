"""A line of a log that does not end: it comes in pieces, in little memory and time."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import pytest

from k8sel.cluster import rest

logs = import_module("k8sel.cluster.logs")  # the package has a function of this name

CHUNK = b"x" * (1 << 16)
STAMP = b"2026-01-02T03:04:05.000000001Z"


class Response:
    """An answer of the API server, in chunks."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self.chunks = chunks

    def stream(self, size: int, *, decode_content: bool) -> Iterator[bytes]:
        yield from self.chunks


def split(chunks: Iterable[bytes]) -> Iterator[bytes]:
    return rest._split(Response(chunks))  # type: ignore[arg-type]


def test_a_line_without_an_end_comes_in_pieces() -> None:
    """256 MiB in one line: whole, it would be copied 4,096 times."""
    longest = total = 0
    for piece in split(CHUNK for _ in range(4096)):
        longest, total = max(longest, len(piece)), total + len(piece)
    assert total == 4096 * len(CHUNK)
    assert longest <= rest.LONGEST + len(CHUNK)


def test_shorter_lines_stay_whole() -> None:
    assert list(split([b"a", b"b\n\nc", b"\nd"])) == [b"ab", b"", b"c", b"d"]


def follow(seen: list[bytes], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the lines that a reader passes on, which already has one line with STAMP."""

    @contextmanager
    def lines(*_: object, **__: object) -> Iterator[Iterator[bytes]]:
        yield iter(seen)

    monkeypatch.setattr(logs, "lines", lines)
    monkeypatch.setattr(logs, "main_container", lambda *_: "c")
    monkeypatch.setattr(logs, "node_name", lambda *_: "n")
    out: queue.Queue[Any] = queue.Queue()
    pod = {"metadata": {"name": "p", "namespace": "d", "uid": "u"}}
    job: Any = type("Job", (), {"name": "j", "kind": "PyTorchJob", "namespace": "d"})
    reader = logs._Reader(None, job, pod, out, threading.Event())  # no cluster: the test replaces what reads
    reader.stamp, reader.same = STAMP, 1
    reader._stream()
    return [line.text for line in out.queue]


@pytest.mark.parametrize(
    ("seen", "passed_on"),
    [
        ([STAMP + b" old", b"its rest", STAMP + b" new"], ["new"]),
        ([STAMP + b" old", STAMP + b" new", b"its rest"], ["new", "its rest"]),
        ([b"2025" + STAMP[4:] + b" older", b"its rest"], []),
    ],
    ids=["of a line that is known", "of a new line", "of an earlier line"],
)
def test_a_piece_goes_with_its_line(seen: list[bytes], passed_on: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert follow(seen, monkeypatch) == passed_on

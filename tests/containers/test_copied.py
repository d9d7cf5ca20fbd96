"""Tests the copies of containers' output: complete, in whole lines for several, for readers of any speed."""

from __future__ import annotations

import os
import threading

import pytest

from k8sel.machine.docker import output


@pytest.fixture
def out(monkeypatch: pytest.MonkeyPatch) -> int:
    """The end that a reader has of what goes to standard output; the other end does not wait."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    monkeypatch.setattr(output, "OUT", writer)
    return reader


@pytest.mark.parametrize(
    ("pieces", "prefix", "expected"),
    [
        ([b"a", b"b\nc"], b"", b"ab\nc"),
        ([b"a", b"b\nc"], b"n: ", b"n: ab\nn: c\n"),
        ([b"a\n", None, b"\n"], b"n: ", b"n: a\nn: \n"),
        ([], b"n: ", b""),
    ],
)
def test_pieces_and_lines(out: int, pieces: list[bytes | None], prefix: bytes, expected: bytes) -> None:
    output.copy(((piece, None) for piece in pieces), prefix)
    os.close(output.OUT)
    assert os.read(out, 100) == expected


def test_a_pipe_that_does_not_wait_loses_nothing(out: int) -> None:
    whole = b"x" * 300_000  # more than any pipe holds
    writing = threading.Thread(target=output.copy, args=([(whole, None)], b""))
    writing.start()
    read = b""
    while len(read) < len(whole):
        read += os.read(out, 65536)
    writing.join()
    assert read == whole


def test_a_line_without_an_end_is_written_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """256 MiB in one line: whole, it would be copied 4,096 times before the first byte is written."""
    written: list[int] = []
    monkeypatch.setattr(output, "_write", lambda _, data: written.append(len(data)))
    output.copy(((b"x" * 65536, None) for _ in range(4096)), b"n: ")
    assert max(written) <= output.LONGEST + 65536 + len(b"n: \n")
    assert sum(written) >= 256 << 20

"""Copies the output of a program in a container to this process's output. Knows no daemon."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable

Piece = tuple["bytes | None", "bytes | None"]  # of standard output and of standard error
OUT, ERR = 1, 2
LONGEST = 1 << 20  # bytes of a line that wait for its end; a longer one is written in pieces


def copy(pieces: Iterable[Piece], prefix: bytes) -> None:
    """Copies all ``pieces``. With a prefix it writes whole lines, so that the nodes' lines do not mix."""
    out, err = _writer(OUT, prefix), _writer(ERR, prefix)
    for printed, errors in pieces:
        out(printed or b"")
        err(errors or b"")
    out(b"", True)
    err(b"", True)


def _writer(descriptor: int, prefix: bytes) -> Callable[..., None]:
    rest = b""

    def write(data: bytes, last: bool = False) -> None:
        nonlocal rest
        if prefix:
            *lines, rest = (rest + data).split(b"\n")
            lines, rest = ([*lines, rest], b"") if rest and (last or len(rest) > LONGEST) else (lines, rest)
            data = b"".join(prefix + line + b"\n" for line in lines)
        _write(descriptor, data)

    return write


def _write(descriptor: int, data: bytes) -> None:
    """Writes without Python's buffers: their lock could block this process's end when a reader does not read."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:  # another program made this terminal or pipe non-blocking
            select.select([], [descriptor], [])

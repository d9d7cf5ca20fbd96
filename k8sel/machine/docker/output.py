"""What a program in a container says, copied to this process's own output as it comes. Knows no daemon."""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterable

Piece = tuple["bytes | None", "bytes | None"]  # of its output, and of its complaints
OUT, ERR = 1, 2


def copy(pieces: Iterable[Piece], prefix: bytes) -> None:
    """All of ``pieces``; with a prefix in whole lines, so that those of several nodes do not mix."""
    out, err = _writer(OUT, prefix), _writer(ERR, prefix)
    for said, complained in pieces:
        out(said or b"")
        err(complained or b"")
    out(b"", True)
    err(b"", True)


def _writer(descriptor: int, prefix: bytes) -> Callable[..., None]:
    rest = b""

    def write(data: bytes, last: bool = False) -> None:
        nonlocal rest
        if prefix:
            *lines, rest = (rest + data).split(b"\n")
            lines, rest = ([*lines, rest], b"") if last and rest else (lines, rest)
            data = b"".join(prefix + line + b"\n" for line in lines)
        _write(descriptor, data)

    return write


def _write(descriptor: int, data: bytes) -> None:
    """Past Python's buffers: a reader that does not read must not keep this process from its end by their lock."""
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:  # a terminal or pipe that another program has set so
            select.select([], [descriptor], [])

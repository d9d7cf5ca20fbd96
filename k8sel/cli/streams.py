"""Handles standard streams that are closed, full, or of another encoding than a job file. Knows no command.

Job files, manifests, logs and servers may hold characters that a terminal obeys. Every stream here makes them plain.
"""

from __future__ import annotations

import io
import os
import re
import sys

from k8sel.entrypoint.report import plain

BOLD, NORMAL = "\x1b[1m", "\x1b[0m"  # the only sequences that k8sel itself sends to a terminal
_OWN = re.compile(r"(\x1b\[[01]m)")


class PlainText(io.TextIOWrapper):
    """A standard stream that escapes control characters, except line ends, tabs and bold."""

    buffer = None  # type: ignore[assignment]  # else typer writes to it directly where the encoding is ASCII

    def write(self, text: str, /) -> int:
        if text.replace("\n", "").replace("\t", "").isprintable():
            return super().write(text)
        return super().write("".join(part if part in (BOLD, NORMAL) else plain(part) for part in _OWN.split(text)))

    def pass_on(self, text: str) -> None:
        """Writes ``text`` as it is, in UTF-8: Kubernetes, or another program, reads it."""
        if self.encoding != "utf-8":
            self.reconfigure(encoding="utf-8", errors="backslashreplace")
        super().write(text)


def ready() -> None:
    """Makes printing safe: escapes what a terminal would obey or its encoding lacks, and opens closed streams."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the caller closed it; print() would use standard output instead
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            setattr(sys, name, _plain_text(stream))


def _plain_text(stream: io.TextIOWrapper) -> PlainText:
    """A second writer for the buffer of ``stream``. Python keeps the first as sys.__stdout__ or sys.__stderr__."""
    return PlainText(
        stream.buffer,
        encoding=stream.encoding,
        errors="backslashreplace",
        newline="\n",
        line_buffering=stream.line_buffering,
        write_through=stream.write_through,
    )


def write(text: str) -> None:
    """Writes data to standard output: unchanged for a program, plain for a terminal."""
    if isinstance(sys.stdout, PlainText) and not sys.stdout.isatty():
        sys.stdout.pass_on(text)
    else:
        sys.stdout.write(text)


def lost(error: OSError) -> str:
    """The message for output that could not be written. Later output goes to /dev/null, so it cannot fail again."""
    if error.filename is not None:  # as `--install-completion` writes
        return f"k8sel: {error.filename} cannot be written: {error.strerror}"
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"k8sel: standard output cannot be written: {error.strerror}. The output is incomplete"

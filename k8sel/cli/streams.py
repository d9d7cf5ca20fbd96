"""Handles standard streams that are closed, full, or of another encoding than a job file. Knows no command."""

from __future__ import annotations

import io
import os
import sys


def ready() -> None:
    """Makes printing safe: escapes characters that the terminal's encoding lacks, and opens closed streams."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # the caller closed it; print() would use standard output instead
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def write(text: str) -> None:
    """Writes ``text`` to standard output, in UTF-8 unless that is a terminal: Kubernetes reads the output."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8")
    sys.stdout.write(text)


def lost(error: OSError) -> str:
    """The message for output that could not be written. Later output goes to /dev/null, so it cannot fail again."""
    if error.filename is not None:  # as `--install-completion` writes
        return f"k8sel: {error.filename} cannot be written: {error.strerror}"
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"k8sel: standard output cannot be written: {error.strerror}. The output is incomplete"

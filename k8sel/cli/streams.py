"""Standard streams that are closed, full, or of another encoding than what a job file holds. Knows no command."""

from __future__ import annotations

import io
import os
import sys


def ready() -> None:
    """Makes printing safe: what has no character in the terminal's encoding is escaped; closed streams swallow."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:  # closed by the caller, who wants nothing; print() would take standard output for it
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", encoding="utf-8"))
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def utf8() -> None:
    """From here on standard output is a file that Kubernetes reads: UTF-8, whatever the terminal takes."""
    if isinstance(sys.stdout, io.TextIOWrapper) and not sys.stdout.isatty():
        sys.stdout.reconfigure(encoding="utf-8")


def lost(error: OSError) -> str:
    """What to say of output that could not be written; what is still to come goes nowhere, and so fails no more."""
    if error.filename is not None:  # as `--install-completion` writes
        return f"k8sel: {error.filename} cannot be written: {error.strerror}"
    if sys.stdout is not None:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"k8sel: standard output cannot be written: {error.strerror}. Nothing that it holds is complete"

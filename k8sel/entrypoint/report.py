"""Writes what people and tools read: lines on stderr, the pod's termination message, the receipt, a node's report."""

from __future__ import annotations

import os

from k8sel.entrypoint.lean import dumps
from k8sel.entrypoint.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

# Outside the ranges that shells (126..255), sysexits users and launchers give a meaning that restarts a pod;
# EX_CONFIG in BSD's sysexits.h. `restartPolicy: ExitCode` retries only >= 128.
MISMATCH = 78
OUTSIDE = 1  # what went wrong outside: mpirun could not reach a node

TERMINATION_LOG = "/dev/termination-log"
_TERMINATION_BYTES = 4096  # Kubernetes keeps no more of it: kubernetes.io/docs, "Customizing the termination message"
RECEIPT = "k8sel-receipt: "
MARK = "k8sel-report: "  # in front of a node's report to the gate
_PIECE = 3800  # bytes: Open MPI's orted reads its ranks' output in pieces of 4096
_PIECE_OF_TEXT = 250  # characters, of which each may become the six of an escape


class Stop(Exception):
    """The command must not start: what a person has to read, each message a line, and the exit status."""

    def __init__(self, messages: list[str], status: int = MISMATCH) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages
        self.status = status


def say(text: str) -> None:
    """One line on stderr, written at once: lines of several processes do not mix. Never raises."""
    _write(2, f"k8sel: {plain(text)}\n")


def plain(text: str) -> str:
    """``text`` without what a terminal would obey: it may be a variable's, a driver's, another program's."""
    kept = (sign if sign.isprintable() or sign in "\n\t" else sign.encode("unicode_escape").decode() for sign in text)
    return "".join(kept)


def _write(file: int, text: str) -> None:
    try:
        os.write(file, text.encode(errors="backslashreplace"))
    except OSError:  # nobody reads it
        pass


def stop(messages: list[str], environ: dict[str, str]) -> None:
    """The messages on stderr, and as the pod's termination message."""
    for message in messages:
        say(message)
    terminate("".join(f"k8sel: {plain(message)}\n" for message in messages), environ)


def terminate(text: str, environ: dict[str, str]) -> None:
    """Writes the termination message as far as Kubernetes keeps it. Best effort: there is none outside a pod.

    Never makes the file: in a pod the kubelet has mounted it. A path given by K8SEL_TERMINATION_LOG is made.
    """
    given = environ.get("K8SEL_TERMINATION_LOG")
    flags = os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK | (os.O_CREAT if given else 0)  # never a wait for its reader
    try:
        file = os.open(given or TERMINATION_LOG, flags, 0o644)
        os.write(file, _cut(text.encode(errors="backslashreplace")))
        os.close(file)
    except OSError:
        pass


def _cut(data: bytes) -> bytes:
    if len(data) <= _TERMINATION_BYTES:
        return data
    return data[: _TERMINATION_BYTES - 4].decode(errors="ignore").encode() + b"...\n"


def receipt(fields: dict[str, Any]) -> None:
    """One JSON line that says what this start gave to whom."""
    _write(2, RECEIPT + dumps(fields) + "\n")


def node_report(fields: dict[str, Any]) -> None:
    """A node's report on stdout, in one write and no longer than mpirun carries on in one piece.

    What is longer loses what is only for show, then the ends of its texts: never that something is wrong.
    """
    line = dumps(fields)
    if len(line) > _PIECE:
        line = dumps({name: value for name, value in fields.items() if name not in ("devices", "notes")})
    if len(line) > _PIECE:
        shorter = [problem[:_PIECE_OF_TEXT] + "..." for problem in fields["problems"][:2]]
        line = dumps({"node": fields["node"], "ok": fields["ok"], "problems": shorter})
    _write(1, f"{MARK}{line}\n")

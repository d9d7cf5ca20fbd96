"""Writes lines on stderr, the pod's termination message, the receipt and a node's report."""

from __future__ import annotations

import os

from k8sel.entrypoint import protocol
from k8sel.entrypoint.lean import TYPE_CHECKING, dumps

if TYPE_CHECKING:
    from typing import Any

# EX_CONFIG in BSD's sysexits.h. No shell (126..255) and no launcher uses this status for something that restarts a pod.
# `restartPolicy: ExitCode` retries only a status >= 128.
MISMATCH = 78
OUTSIDE = 1  # an error outside this node: mpirun could not reach a node

TERMINATION_LOG = "/dev/termination-log"
_TERMINATION_BYTES = 4096  # Kubernetes keeps no more: kubernetes.io/docs, "Customizing the termination message"
RECEIPT = "k8sel-receipt: "
MARK = "k8sel-report: "  # in front of a node's report to the gate
_PIECE = 3800  # bytes: Open MPI's orted reads its ranks' output in pieces of 4096
_PIECE_OF_TEXT = 250  # characters; each may become six in JSON, as an escape


class Stop(Exception):
    """The command must not start. Holds the messages, one line each, and the exit status."""

    def __init__(self, messages: list[str], status: int = MISMATCH) -> None:
        super().__init__("\n".join(messages))
        self.messages = messages
        self.status = status


def say(text: str) -> None:
    """Writes one line on stderr in one call, so that lines of several processes do not mix. Never raises."""
    _write(2, f"k8sel: {plain(text)}\n")


def plain(text: str) -> str:
    """Escapes the control characters in ``text``, which may come from a variable, a driver or another program."""
    kept = (sign if sign.isprintable() or sign in "\n\t" else sign.encode("unicode_escape").decode() for sign in text)
    return "".join(kept)


def _write(file: int, text: str) -> None:
    try:
        os.write(file, text.encode(errors="backslashreplace"))
    except OSError:  # it has no reader
        pass


def stop(messages: list[str], environ: dict[str, str]) -> None:
    """Writes the messages on stderr, and as the pod's termination message."""
    for message in messages:
        say(message)
    terminate("".join(f"k8sel: {plain(message)}\n" for message in messages), environ)


def terminate(text: str, environ: dict[str, str]) -> None:
    """Writes the termination message, cut to the size that Kubernetes keeps. Outside a pod there is no such file.

    Never creates the default file: in a pod, the kubelet mounts it. Creates the file of K8SEL_TERMINATION_LOG.
    """
    given = environ.get(protocol.TERMINATION_LOG)
    flags = os.O_WRONLY | os.O_TRUNC | os.O_NONBLOCK | (os.O_CREAT if given else 0)  # does not wait for a reader
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


def is_for_a_person(environ: dict[str, str]) -> bool:
    """Tells whether a person's terminal gets the lines, which collects no receipt."""
    return os.isatty(2) and "KUBERNETES_SERVICE_HOST" not in environ


def receipt(fields: dict[str, Any]) -> None:
    """Writes the receipt: one line of JSON with the devices of each process."""
    _write(2, RECEIPT + dumps(fields) + "\n")


def node_report(fields: dict[str, Any]) -> None:
    """Writes a node's report on stdout in one call, short enough for mpirun to pass it on in one piece.

    A longer report loses its devices and notes first, then the ends of its texts. It always keeps the problems.
    """
    line = dumps(fields)
    if len(line) > _PIECE:
        line = dumps({name: value for name, value in fields.items() if name not in ("devices", "notes")})
    if len(line) > _PIECE:
        shorter = [problem[:_PIECE_OF_TEXT] + "..." for problem in fields["problems"][:2]]
        line = dumps({"node": fields["node"], "ok": fields["ok"], "problems": shorter})
    _write(1, f"{MARK}{line}\n")

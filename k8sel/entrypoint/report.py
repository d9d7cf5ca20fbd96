"""What people and tools read: lines on stderr, the pod's termination message, the receipt, a node's report."""

from __future__ import annotations

import os

from k8sel.entrypoint.lean import dumps
from k8sel.entrypoint.record import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

TERMINATION_LOG = "/dev/termination-log"
_TERMINATION_BYTES = 4096  # Kubernetes keeps no more of it: kubernetes.io/docs, "Customizing the termination message"
RECEIPT = "k8sel-receipt: "
MARK = "k8sel-report: "  # in front of a node's report to the gate


def say(text: str) -> None:
    """One line on stderr, written at once: lines of several processes do not mix. Never raises."""
    try:
        os.write(2, f"k8sel: {text}\n".encode(errors="backslashreplace"))
    except OSError:  # nobody reads it
        pass


def stop(messages: list[str], environ: dict[str, str]) -> None:
    """The messages on stderr, and as the pod's termination message."""
    for message in messages:
        say(message)
    terminate("".join(f"k8sel: {message}\n" for message in messages), environ)


def terminate(text: str, environ: dict[str, str]) -> None:
    """Writes the termination message as far as Kubernetes keeps it. Best effort: there is none outside a pod.

    Never makes the file: in a pod the kubelet has mounted it. A path given by K8SEL_TERMINATION_LOG is made.
    """
    given = environ.get("K8SEL_TERMINATION_LOG")
    flags = os.O_WRONLY | os.O_TRUNC | (os.O_CREAT if given else 0)
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
    try:
        os.write(2, (RECEIPT + dumps(fields) + "\n").encode())
    except OSError:
        pass


def node_report(fields: dict[str, Any]) -> None:
    """A node's report on stdout, in one write: mpirun carries it on in one piece."""
    os.write(1, (MARK + dumps(fields) + "\n").encode())

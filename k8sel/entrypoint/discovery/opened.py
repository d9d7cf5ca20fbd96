"""Opens device nodes: the device cgroup may deny a node that /dev lists, because it is another container's."""

from __future__ import annotations

import errno
import os
import sys

from k8sel.entrypoint.lean import dumps, loads, record

SECONDS = 0.5  # a driver may wake its device up first; a refusal comes at once
EVENT = "k8sel.refused"  # the audit event of nodes that cannot be opened, each with the reason
# Not in this container, or no device behind the node. With any other error (busy, broken) the device is here.
_REFUSALS = (errno.EPERM, errno.EACCES, errno.ENXIO, errno.ENODEV)


@record(frozen=True)
class Tried:
    """The result of opening device nodes."""

    refused: tuple[str, ...] = ()  # paths
    notes: tuple[str, ...] = ()  # the reasons


def tried(paths: list[str]) -> Tried:
    """Finds the nodes that cannot be opened. Uses a child process: to open a broken device may take forever."""
    from k8sel.entrypoint.discovery import forked

    if not paths:
        return Tried()
    try:
        reasons: dict[str, str] = loads(forked.call(lambda: dumps(_reasons(paths)), SECONDS))
    except forked.Failed as failed:
        return Tried((), (f"the device nodes were not tried: {failed}",))
    sys.audit(EVENT, reasons)
    groups: dict[str, list[str]] = {}
    for path, reason in reasons.items():
        groups.setdefault(reason, []).append(path)
    notes = (f"{', '.join(group)} cannot be opened: {reason}" for reason, group in groups.items())
    return Tried(tuple(reasons), tuple(notes))


def _reasons(paths: list[str]) -> dict[str, str]:
    found = {}
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            if error.errno in _REFUSALS:
                found[path] = os.strerror(error.errno)
    return found

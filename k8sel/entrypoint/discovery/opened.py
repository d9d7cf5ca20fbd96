"""Opens device nodes: the device cgroup may deny a node that /dev lists, because it is another container's."""

from __future__ import annotations

import errno
import os
import sys

from k8sel.entrypoint.lean import dumps, loads, record

SECONDS = 0.5  # a driver may wake its device up first; a refusal comes at once
_BY_GROUP = 0o060
_UNMAPPED = 65534  # Linux, Documentation/admin-guide/sysctl/fs.rst, overflowgid: a group of another user namespace
EVENT = "k8sel.refused"  # the audit event of nodes that cannot be opened, each with its errno and the reason
# Not in this container, or no device behind the node. With any other error (busy, broken) the device is here.
_REFUSALS = (errno.EPERM, errno.EACCES, errno.ENXIO, errno.ENODEV)


@record(frozen=True)
class Tried:
    """The result of opening device nodes."""

    refused: tuple[str, ...] = ()  # paths
    failed: tuple[str, ...] = ()  # those of them that the device cgroup did not deny
    notes: tuple[str, ...] = ()  # the reasons


def tried(paths: list[str]) -> Tried:
    """Finds the nodes that cannot be opened. Uses a child process: to open a broken device may take forever."""
    from k8sel.entrypoint.discovery import forked

    if not paths:
        return Tried()
    try:
        reasons: dict[str, tuple[int, str]] = loads(forked.call(lambda: dumps(_reasons(paths)), SECONDS))
    except forked.Failed as failed:
        return Tried(notes=(f"the device nodes were not tried: {failed}",))
    sys.audit(EVENT, reasons)
    groups: dict[str, list[str]] = {}
    for path, (_, reason) in reasons.items():
        groups.setdefault(reason, []).append(path)
    notes = (f"{', '.join(group)} cannot be opened: {reason}" for reason, group in groups.items())
    not_denied = (path for path, (code, _) in reasons.items() if code != errno.EPERM)
    return Tried(tuple(reasons), tuple(not_denied), tuple(notes))


def _reasons(paths: list[str]) -> dict[str, tuple[int, str]]:
    found = {}
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            if error.errno in _REFUSALS:
                helps = _group(path) if error.errno == errno.EACCES else ""
                found[path] = error.errno, os.strerror(error.errno) + helps
    return found


def _group(path: str) -> str:
    """Returns how to join the group that may open the node; empty if it may not, or is not known here."""
    try:
        node = os.stat(path)
    except OSError:
        return ""
    if node.st_mode & _BY_GROUP != _BY_GROUP or node.st_gid == _UNMAPPED:
        return ""
    return f", but its group may: podSecurityContext: {{supplementalGroups: [{node.st_gid}]}}"

"""Whether device nodes can really be opened: one that is listed may be another container's, by the device cgroup."""

from __future__ import annotations

import errno
import os

from k8sel.entrypoint.lean import dumps, loads

SECONDS = 1.0  # a driver may wake its device up first; a refusal comes at once
# Not handed over, or nothing behind it. Any other error (busy, broken) is a device that is here.
_REFUSALS = (errno.EPERM, errno.EACCES, errno.ENXIO, errno.ENODEV)


def refused(paths: list[str]) -> dict[str, str]:
    """Those that cannot be opened -> why. In a child process: opening a broken device may never end."""
    from k8sel.entrypoint import forked

    try:
        reasons: dict[str, str] = loads(forked.call(lambda: dumps(_reasons(paths)), SECONDS)) if paths else {}
    except forked.Failed:
        return {}
    return reasons


def notes(reasons: dict[str, str]) -> tuple[str, ...]:
    """The refusals, for people; one line for all with the same reason."""
    groups: dict[str, list[str]] = {}
    for path, reason in reasons.items():
        groups.setdefault(reason, []).append(path)
    return tuple(f"{', '.join(paths)} cannot be opened: {reason}" for reason, paths in groups.items())


def _reasons(paths: list[str]) -> dict[str, str]:
    found = {}
    for path in paths:
        try:
            os.close(os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC))
        except OSError as error:
            if error.errno in _REFUSALS:
                found[path] = os.strerror(error.errno)
    return found

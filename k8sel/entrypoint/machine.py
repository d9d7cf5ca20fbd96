"""The machine as trees of files. Where they start is an argument, so that a test lays out a machine in a folder.

Reads never raise: what cannot be read is empty, because a container may hide any of it.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.record import TYPE_CHECKING, record

if TYPE_CHECKING:
    from typing import Mapping

_DIGITS = 20  # of a number of 64 bits


@record(frozen=True)
class Machine:
    """Where this machine's devices, processes, kernel and vendors' libraries are."""

    dev: str = "/dev"
    proc: str = "/proc"
    sys: str = "/sys"
    lib: str = ""  # folder that vendors' libraries are loaded from; empty: wherever the loader finds them
    system: str = ""  # as `uname -sm` says it: Linux x86_64, Darwin arm64
    root: str = ""  # the folder below which a test lays out all of these
    environ: Mapping[str, str] | None = None  # what tells drivers how to count, if anything does

    def setting(self, *variables: str) -> str:
        """The first of these variables that says something; empty if none does."""
        given = self.environ or {}
        return next((given[name] for name in variables if given.get(name)), "")


def under(root: str) -> Machine:
    """The machine laid out below ``root``, its system in the file ``uname``; an empty ``root`` is the real one."""
    if root:
        dev, proc, sys, lib = (os.path.join(root, name) for name in ("dev", "proc", "sys", "lib"))
        return Machine(dev, proc, sys, lib, read(root, "uname"), root)
    here = os.uname()
    return Machine(system=f"{here.sysname} {here.machine}")


def read(*path: str) -> str:
    """The file's text without the white space around it; empty if it cannot be read."""
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def whole(text: str) -> int | None:
    """A number as the kernel writes one, of 64 bits at most; None for any other text, however long."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def names(*path: str) -> list[str]:
    """The names in a folder, sorted; none if it cannot be listed."""
    try:
        return sorted(os.listdir(os.path.join(*path)))
    except OSError:
        return []


def node_name(environ: dict[str, str]) -> str:
    """The node's name in messages: in a pod, the host name is the pod's name."""
    return environ.get("K8SEL_NODE") or os.uname().nodename

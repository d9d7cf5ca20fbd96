"""The machine as trees of files. Their root is an argument, so that a test can make a machine in a folder.

Reads never raise: a file that cannot be read counts as empty, because a container may hide any file.
"""

from __future__ import annotations

import os
import sys as interpreter

from k8sel.entrypoint.lean import TYPE_CHECKING, record
from k8sel.entrypoint.protocol import NODE

if TYPE_CHECKING:
    from typing import Mapping

SETTING = "k8sel.setting"  # the audit event of variables that were read
_DIGITS = 20  # the most digits of a number of 64 bits


@record(frozen=True)
class Machine:
    """Where this machine's devices, processes, kernel and vendors' libraries are."""

    dev: str = "/dev"
    proc: str = "/proc"
    sys: str = "/sys"
    lib: str = ""  # folder that vendors' libraries are loaded from; empty: wherever the loader finds them
    system: str = ""  # the output of `uname -sm`: Linux x86_64, Darwin arm64
    root: str = ""  # the folder below which a test lays out all of these
    environ: Mapping[str, str] | None = None  # variables that change how drivers count devices

    def setting(self, *variables: str) -> str:
        """Returns the value of the first of these variables that is not empty; empty if all are."""
        interpreter.audit(SETTING, variables)
        given = self.environ or {}
        return next((given[name] for name in variables if given.get(name)), "")


def under(root: str) -> Machine:
    """Returns the machine below ``root``, with its system in the file ``uname``; empty means the real machine."""
    if root:
        dev, proc, sys, lib = (os.path.join(root, name) for name in ("dev", "proc", "sys", "lib"))
        return Machine(dev, proc, sys, lib, read(root, "uname"), root)
    here = os.uname()
    return Machine(system=f"{here.sysname} {here.machine}")


def read(*path: str) -> str:
    """Returns the file's text without the white space around it; empty if it cannot be read."""
    try:
        with open(os.path.join(*path), encoding="utf-8", errors="replace") as file:
            return file.read().strip()
    except OSError:
        return ""


def whole(text: str) -> int | None:
    """Reads a number as the kernel writes it, of 64 bits at most; returns None for any other text."""
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _DIGITS else None


def names(*path: str) -> list[str]:
    """Returns the names in a folder, sorted; none if it cannot be listed."""
    try:
        return sorted(os.listdir(os.path.join(*path)))
    except OSError:
        return []


def numbers(start: str, *path: str) -> list[int]:
    """Returns the numbers behind ``start`` in the names in a folder, ascending."""
    ends = (name[len(start) :] for name in names(*path) if name.startswith(start))
    return sorted(int(end) for end in ends if end.isdecimal())


def node_name(environ: dict[str, str]) -> str:
    """Returns the node's name for messages: in a pod, the host name is the pod's name."""
    return environ.get(NODE) or os.uname().nodename

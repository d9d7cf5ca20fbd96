"""The container's own environment, for processes that came over ssh.

sshd starts processes with a clean environment, so the variables of an image's ENV would be missing (the folders of a
library, for example). So a node writes its environment to a file before it starts sshd, and sshd gives each session
the name of that file (``k8sel.planning.mpi``).
"""

from __future__ import annotations

import os

from k8sel.entrypoint.protocol import ENVIRON

SHELLS = ("PWD", "OLDPWD", "SHLVL", "_")  # what a shell says of itself


def under(environ: dict[str, str]) -> dict[str, str]:
    """Adds the container's own variables to ``environ``; values from mpirun and ssh override them."""
    if ENVIRON not in environ:
        return environ
    session = {name: value for name, value in environ.items() if name != ENVIRON}
    own = entries(_read(environ[ENVIRON]))
    return {**{name: value for name, value in own if not (name in SHELLS or name.startswith("K8SEL_"))}, **session}


def entries(text: bytes) -> list[tuple[str, str]]:
    """Formats variables as the kernel does: ``NAME=value``, with a zero byte after each."""
    pairs = [entry.partition(b"=") for entry in text.split(b"\0")]
    return [(os.fsdecode(name), os.fsdecode(value)) for name, equals, value in pairs if name and equals]


def _read(path: str) -> bytes:
    """Reads the file; empty if there is none, or if another user owns it."""
    try:
        with open(path, "rb") as file:
            return file.read() if os.fstat(file.fileno()).st_uid == os.geteuid() else b""
    except OSError:
        return b""

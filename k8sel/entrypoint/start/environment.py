"""The container's own environment, for processes that came over ssh.

sshd starts what it is asked for from a clean environment, so what an image's ENV says (where a library looks for its
parts, say) would be missing there, and there alone. A node's sshd is started with its own environment in a file, and
names that file to each session (``k8sel.planning.mpi``).
"""

from __future__ import annotations

import os

from k8sel.entrypoint.protocol import ENVIRON

SHELLS = ("PWD", "OLDPWD", "SHLVL", "_")  # what a shell says of itself


def under(environ: dict[str, str]) -> dict[str, str]:
    """``environ`` over the container's own: mpirun and ssh have the last word."""
    if ENVIRON not in environ:
        return environ
    session = {name: value for name, value in environ.items() if name != ENVIRON}
    own = entries(_read(environ[ENVIRON]))
    return {**{name: value for name, value in own if not _left_out(name)}, **session}


def _left_out(name: str) -> bool:
    """Tells whether a variable is left out: a shell's own, or k8sel's, which come with mpirun's command alone."""
    return name in SHELLS or name.startswith("K8SEL_")


def entries(text: bytes) -> list[tuple[str, str]]:
    """Variables as the kernel writes them: ``NAME=value``, and a zero byte behind each."""
    pairs = [entry.partition(b"=") for entry in text.split(b"\0")]
    return [(os.fsdecode(name), os.fsdecode(value)) for name, equals, value in pairs if name and equals]


def _read(path: str) -> bytes:
    """Reads the file; empty where there is none, or where another user owns it."""
    try:
        with open(path, "rb") as file:
            return file.read() if os.fstat(file.fileno()).st_uid == os.geteuid() else b""
    except OSError:
        return b""

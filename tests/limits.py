"""Runs hostile input in a process with little memory and time: a limit that fails cannot take the machine with it."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import IO

MEMORY = 512 << 20  # address space: Python and k8sel map 150 MB before they do anything
SECONDS = 20


def bounded(command: Sequence[str], *, stdin: IO[bytes] | int | None = None) -> subprocess.CompletedProcess[str]:
    """Runs ``python COMMAND`` within the limits."""
    return subprocess.run(
        [sys.executable, *command],
        stdin=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=3 * SECONDS,
        preexec_fn=_limit,
    )


def k8sel(*words: str | Path, stdin: IO[bytes] | int | None = None) -> subprocess.CompletedProcess[str]:
    """Runs k8sel within the limits."""
    return bounded(["-m", "k8sel", *map(str, words)], stdin=stdin)


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))

"""Times whole processes in turn (A B C A B C ...), so that a drift of the machine's speed touches all alike."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Mapping, Sequence

# Bytecode is cached, as on a user's machine; a variable of the shell that turns that off would time the compiler.
ENVIRON = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


def medians(commands: Mapping[str, Sequence[str]], runs: int, env: Mapping[str, str] = ENVIRON) -> dict[str, float]:
    """The median wall time of each command, in milliseconds, over ``runs`` rounds after one that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in commands}
    for round_ in range(runs + 1):
        for name, command in commands.items():
            elapsed = _time(command, env)
            if round_:
                times[name].append(elapsed)
    return {name: statistics.median(values) for name, values in times.items()}


def _time(command: Sequence[str], env: Mapping[str, str]) -> float:
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=dict(env))
    return (time.perf_counter() - start) * 1000

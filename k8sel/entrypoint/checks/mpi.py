"""Checks which MPI the image has: Intel MPI and MPICH both use hydra, and each ignores the other's settings."""

from __future__ import annotations

from k8sel.entrypoint import child, tables
from k8sel.entrypoint.checks import NOTHING, Case, Finding
from k8sel.entrypoint.launch import behind_env, on_path

_SECONDS = 20.0


def another(case: Case) -> Finding:
    """Compares the output of ``mpirun --version`` with ``mpi.implementation``."""
    rows, expected = tables.mpi(), case.expectation.mpi
    if expected not in rows:
        return NOTHING
    name = behind_env(list(case.command))[0]
    with child.Signals():
        ended = child.run([on_path([name], case.environ), "--version"], case.environ, _SECONDS)
    output = ended.output.decode(errors="replace") + ended.errors
    others = [other for other, row in rows.items() if row["says"] in output]
    if expected in others:
        return NOTHING
    if not others:
        return Finding(notes=[f"{name} --version names no known MPI ({ended.how()})"])
    first = output.strip().splitlines()[0]
    return Finding(
        [
            f"mpi.implementation is {expected}, and {name} is {others[0]}'s ({first}): "
            f"set mpi.implementation: {others[0]}, or use an image with {expected}'s MPI"
        ]
    )

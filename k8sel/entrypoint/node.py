"""What the command finds in its environment: the modes ``node`` and ``rank``."""

from __future__ import annotations

import os

from k8sel.entrypoint import cpus, libraries, summary
from k8sel.entrypoint.machine import Machine
from k8sel.entrypoint.processes import processes, there, variables
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.record import replace
from k8sel.entrypoint.stop import Stop
from k8sel.entrypoint.survey import settle, survey


def start_node(expectation: Expectation, machine: Machine, environ: dict[str, str], program: str) -> dict[str, str]:
    """Mode ``node``: the environment for the command, in which every process of the node sees all its devices."""
    seen = survey(expectation, machine, environ)
    found = libraries.versions(program, environ)
    seen = replace(seen, notes=[*seen.notes, *libraries.missing(expectation.launcher, found)])
    settle(seen, expectation)
    each = processes(seen, expectation)
    everything = variables(there(expectation.devices, seen), seen, expectation)
    threads = _threads(expectation, machine, bound=False)
    return summary.write(seen, expectation, each, {**environ, **everything, **_omp(environ, threads)}, found)


def start_rank(expectation: Expectation, machine: Machine, environ: dict[str, str], program: str) -> dict[str, str]:
    """Mode ``rank``: the environment for one process, with torch's names for its rank, and its own mask."""
    from k8sel.entrypoint import ranks, tables

    rank = ranks.resolve(environ, tables.mpi())
    seen = survey(expectation, machine, environ)
    started, planned = int(rank["LOCAL_WORLD_SIZE"]), expectation.processes_per_node
    if started != planned:
        problem = f"{planned} processes expected on this node, the launcher started {started}"
        seen = replace(seen, problems=[*seen.problems, problem])
    if rank["LOCAL_RANK"] != "0":
        seen = replace(seen, notes=[])  # the node's first has said them
    settle(seen, expectation)
    each = [process for process in processes(seen, expectation) if process.local_rank == int(rank["LOCAL_RANK"])]
    if not each:
        raise Stop(
            [f"node {seen.name}: local rank {rank['LOCAL_RANK']} is beyond the {planned} processes that were planned"]
        )
    threads = _threads(expectation, machine, bound=True)
    environ = {**environ, **each[0].variables, **rank, **_omp(environ, threads)}
    return summary.write(seen, expectation, each, environ, libraries.versions(program, environ))


def _threads(expectation: Expectation, machine: Machine, bound: bool) -> int:
    affinity = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    given = expectation.threads_per_process
    return given or cpus.threads(machine, expectation.processes_per_node, affinity, bound)


def _omp(environ: dict[str, str], threads: int) -> dict[str, str]:
    """The user's own number stays."""
    return {"OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS") or str(threads)}

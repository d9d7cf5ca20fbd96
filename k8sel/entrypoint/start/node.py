"""The modes ``node`` and ``rank``: they check the node, then make the command's environment."""

from __future__ import annotations

import os

from k8sel.entrypoint import cpus, masks, tables
from k8sel.entrypoint.checks import libraries, look
from k8sel.entrypoint.checks.survey import settle, survey
from k8sel.entrypoint.cpus import Share
from k8sel.entrypoint.lean import TYPE_CHECKING, replace
from k8sel.entrypoint.machine import Machine
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.report import Stop
from k8sel.entrypoint.start import summary

if TYPE_CHECKING:
    from typing import Iterable


def start_node(
    expectation: Expectation, machine: Machine, environ: dict[str, str], command: list[str]
) -> dict[str, str]:
    """Mode ``node``: the environment for the command, in which every process of the node sees all its devices."""
    found = libraries.of(command, environ)
    over_mpi = tables.launchers().get(expectation.launcher, {}).get("usesMpi")
    theirs = libraries.of_ranks(expectation, command, environ) if over_mpi else found
    share = _share(expectation, machine, environ, bound=False)
    case = replace(look(expectation, machine, environ), program=theirs, share=share)
    finding = survey(case, "node")
    settle(case, finding)
    # mpirun passes its environment on, and each rank counts the cores that it is bound to.
    threads = {} if over_mpi else _omp(environ, share)
    bounds = masks.part_env(case.row, case.found, expectation)
    environ = {**bounds, **environ, **masks.everyones(case.row, case.found, case.hidden, expectation), **threads}
    each = masks.processes(case.row, case.found, case.hidden, expectation)
    summary.write(case, finding.unchecked, each, environ, found.versions)
    return environ


def start_rank(
    expectation: Expectation, machine: Machine, environ: dict[str, str], command: list[str]
) -> dict[str, str]:
    """Mode ``rank``: the environment of one process, with torch's variables for its rank, and its own mask."""
    from k8sel.entrypoint.start import ranks

    found = libraries.of(command, environ)
    rank = ranks.resolve(environ, tables.mpi())
    share = _share(expectation, machine, environ, bound=True)
    case = replace(look(expectation, machine, environ), program=found, share=share, rank=rank)
    finding = survey(case, "rank")
    settle(case, finding if rank["LOCAL_RANK"] == "0" else replace(finding, notes=()))  # one rank prints the notes
    everyone = masks.processes(case.row, case.found, case.hidden, expectation)
    each = [process for process in everyone if process.local_rank == int(rank["LOCAL_RANK"])]
    if not each:
        planned = expectation.processes_per_node
        fact = f"{planned} processes expected on this node, local rank {rank['LOCAL_RANK']} found"
        raise Stop([f"node {case.name}: {fact}: start {planned}"])
    defaults = {**_bound(machine, rank, share), **masks.part_env(case.row, case.found, expectation)}
    environ = {**defaults, **environ, **each[0].variables, **rank, **_omp(environ, share)}
    summary.write(case, finding.unchecked, each, environ, found.versions)
    return environ


def _share(expectation: Expectation, machine: Machine, environ: dict[str, str], bound: bool) -> Share:
    """Returns each process's share of the node's cores. Does not count them if the number of threads is given."""
    workers, given = cpus.workers(environ), expectation.threads_per_process
    if given or environ.get("OMP_NUM_THREADS"):
        return Share(given or 1, None, workers)
    return cpus.share(machine, expectation.processes_per_node, _own(), workers, bound)


def _own() -> Iterable[int]:
    """Returns the CPUs that this process may run on."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _bound(machine: Machine, rank: dict[str, str], share: Share) -> dict[str, str]:
    """Returns the variable that binds oneCCL's workers, unless the user has set it."""
    local, processes = int(rank["LOCAL_RANK"]), int(rank["LOCAL_WORLD_SIZE"])
    places = cpus.for_workers(machine, _own(), share.workers, local, processes)
    return {cpus.AFFINITY: places} if places else {}


def _omp(environ: dict[str, str], share: Share) -> dict[str, str]:
    """Returns OMP_NUM_THREADS: the user's number, else the threads of the share."""
    return {"OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS") or str(share.threads)}

"""What the command finds in its environment: the modes ``node`` and ``rank``."""

from __future__ import annotations

import os

from k8sel.entrypoint import cpus
from k8sel.entrypoint.checks import libraries
from k8sel.entrypoint.checks.libraries import Libraries
from k8sel.entrypoint.checks.survey import Survey, settle, survey
from k8sel.entrypoint.cpus import Share
from k8sel.entrypoint.machine import Machine
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.record import TYPE_CHECKING, replace
from k8sel.entrypoint.start import summary
from k8sel.entrypoint.start.processes import processes, there, variables
from k8sel.entrypoint.stop import Stop

if TYPE_CHECKING:
    from typing import Iterable


def start_node(
    expectation: Expectation, machine: Machine, environ: dict[str, str], command: list[str]
) -> dict[str, str]:
    """Mode ``node``: the environment for the command, in which every process of the node sees all its devices."""
    found = libraries.of(command, environ)
    theirs = libraries.of_ranks(command, environ) if expectation.launcher == "mpirun" else found
    seen = _with_backend(survey(expectation, machine, environ), expectation, environ, theirs)
    share = _share(expectation, machine, environ, bound=False)
    missing = libraries.missing(expectation.launcher, found)
    problems, notes = (missing, []) if found.python() else ([], missing)
    seen = replace(seen, problems=[*seen.problems, *problems], notes=[*seen.notes, *notes, *cpus.crowded(share)])
    settle(seen, expectation)
    each = processes(seen, expectation)
    everything = variables(there(expectation.devices, seen), seen, expectation)
    # mpirun hands its environment on, and each rank counts what it is then bound to.
    threads = {} if expectation.launcher == "mpirun" else _omp(environ, share)
    environ = {**environ, **everything, **threads}
    summary.write(replace(seen, libraries=found.versions), expectation, each, environ, share)
    return environ


def start_rank(
    expectation: Expectation, machine: Machine, environ: dict[str, str], command: list[str]
) -> dict[str, str]:
    """Mode ``rank``: the environment for one process, with torch's names for its rank, and its own mask."""
    from k8sel.entrypoint import tables
    from k8sel.entrypoint.start import ranks

    found = libraries.of(command, environ)
    rank = ranks.resolve(environ, tables.mpi())
    seen = _with_backend(survey(expectation, machine, environ), expectation, environ, found)
    started, planned = int(rank["LOCAL_WORLD_SIZE"]), expectation.processes_per_node
    if started != planned:
        problem = f"{planned} processes expected on this node, the launcher started {started}"
        seen = replace(seen, problems=[*seen.problems, problem])
    share = _share(expectation, machine, environ, bound=True)
    notes = [*seen.notes, *cpus.crowded(share)] if rank["LOCAL_RANK"] == "0" else []  # the node's first says them
    settle(replace(seen, notes=notes), expectation)
    each = [process for process in processes(seen, expectation) if process.local_rank == int(rank["LOCAL_RANK"])]
    if not each:
        raise Stop(
            [f"node {seen.name}: local rank {rank['LOCAL_RANK']} is beyond the {planned} processes that were planned"]
        )
    environ = {**_bound(machine, rank, share), **environ, **each[0].variables, **rank, **_omp(environ, share)}
    summary.write(replace(seen, libraries=found.versions), expectation, each, environ, share)
    return environ


def _with_backend(seen: Survey, expectation: Expectation, environ: dict[str, str], found: Libraries | None) -> Survey:
    """``seen``, and whether the program's libraries have the backend that it will ask for; None: others look."""
    if not expectation.backend or found is None:
        return seen
    if expectation.check == "off":
        return replace(seen, unchecked=[*seen.unchecked, "backend"])
    from k8sel.entrypoint.checks import backends

    unknown = backends.unknown(expectation.backend, found)
    return replace(
        seen,
        problems=[*seen.problems, *backends.problems(expectation.backend, found, environ)],
        notes=[*seen.notes, *unknown],
        unchecked=[*seen.unchecked, *(["backend"] if unknown else [])],
    )


def _share(expectation: Expectation, machine: Machine, environ: dict[str, str], bound: bool) -> Share:
    """What each process gets of the node's cores; a number of threads that is given is nobody else's to count."""
    workers, given = cpus.workers(environ), expectation.threads_per_process
    if given or environ.get("OMP_NUM_THREADS"):
        return Share(given or 1, None, workers)
    return cpus.share(machine, expectation.processes_per_node, _own(), workers, bound)


def _own() -> Iterable[int]:
    """CPUs that this process may run on."""
    return os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)


def _bound(machine: Machine, rank: dict[str, str], share: Share) -> dict[str, str]:
    """Where oneCCL's workers compute, unless the user says it."""
    local, processes = int(rank["LOCAL_RANK"]), int(rank["LOCAL_WORLD_SIZE"])
    places = cpus.for_workers(machine, _own(), share.workers, local, processes)
    return {cpus.AFFINITY: places} if places else {}


def _omp(environ: dict[str, str], share: Share) -> dict[str, str]:
    """The user's own number stays."""
    return {"OMP_NUM_THREADS": environ.get("OMP_NUM_THREADS") or str(share.threads)}

"""Tests the CPUs and the threads of each rank: `mpi.binding` with real MPI runtimes."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mpi.machines import Machine, built, placed
from mpi.runtimes import Runtime

pytestmark = pytest.mark.mpi

GUIDES = Machine(sockets=2, numa_nodes=1, cores=24)
FOUR_NODES = Machine(sockets=2, numa_nodes=2, cores=12)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job on a machine, the CPUs of its ranks, and the threads that each starts beside one worker of oneCCL."""

    machine: Machine
    processes: int
    binding: str
    cpus: Callable[[Machine], list[range]]
    threads: str
    spec: dict[str, Any] = field(default_factory=dict)


CASES = {
    "none": Case(machine=GUIDES, processes=2, binding="none", cpus=lambda it: [it.all()] * 2, threads="23"),
    "a socket each": Case(
        machine=GUIDES, processes=2, binding="socket", cpus=lambda it: [it.socket(0), it.socket(1)], threads="23"
    ),
    "two on each socket": Case(
        machine=GUIDES, processes=4, binding="socket", cpus=lambda it: [it.socket(0), it.socket(1)] * 2, threads="11"
    ),
    "a socket is two NUMA nodes": Case(
        machine=FOUR_NODES, processes=2, binding="socket", cpus=lambda it: [it.socket(0), it.socket(1)], threads="23"
    ),
    "a NUMA node each": Case(
        machine=FOUR_NODES,
        processes=4,
        binding="numa",
        cpus=lambda it: [it.numa(node) for node in range(4)],
        threads="11",
    ),
    "two of four NUMA nodes": Case(
        machine=FOUR_NODES, processes=2, binding="numa", cpus=lambda it: [it.numa(0), it.numa(1)], threads="11"
    ),
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("machine"))


@pytest.mark.parametrize("name", CASES)
def test_ranks_are_bound_and_count_their_cores(runtime: Runtime, name: str, library: Path, tmp_path: Path) -> None:
    case = CASES[name]
    place = placed(case.machine, library, tmp_path)
    ranks = _ranks(runtime, place.run, tmp_path, processesPerNode=case.processes, mpi={"binding": case.binding})
    assert sorted(sorted(rank["cpus"]) for rank in ranks) == sorted(list(cpus) for cpus in case.cpus(case.machine))
    assert [rank["env"]["OMP_NUM_THREADS"] for rank in ranks] == [case.threads] * case.processes


@pytest.mark.parametrize(("processes", "threads"), [(2, 23), (4, 11), (4, 2)])
def test_ranks_have_cores_of_their_own(
    runtime: Runtime, processes: int, threads: int, library: Path, tmp_path: Path
) -> None:
    place = placed(GUIDES, library, tmp_path)
    cpu = {"threadsPerProcess": threads}
    ranks = _ranks(runtime, place.run, tmp_path, processesPerNode=processes, mpi={"binding": "core"}, cpu=cpu)
    cores = [{number // 2 for number in rank["cpus"]} for rank in ranks]
    assert [len(each) for each in cores] == [threads + 1] * processes
    assert len(set().union(*cores)) == (threads + 1) * processes
    assert [rank["env"]["OMP_NUM_THREADS"] for rank in ranks] == [str(threads)] * processes


def test_unasked_intel_mpi_binds_and_the_others_do_not(runtime: Runtime, library: Path, tmp_path: Path) -> None:
    place = placed(GUIDES, library, tmp_path)
    ranks = _ranks(runtime, place.run, tmp_path)
    shares = [GUIDES.socket(0), GUIDES.socket(1)] if runtime.implementation == "Intel" else [GUIDES.all()] * 2
    assert [rank["cpus"] for rank in ranks] == [list(share) for share in shares]
    assert [rank["env"]["OMP_NUM_THREADS"] for rank in ranks] == ["23"] * 2


@pytest.mark.parametrize("binding", ["none", "socket", "core"])
def test_the_kernel_binds_them_on_this_machine(runtime: Runtime, binding: str, tmp_path: Path) -> None:
    """Without anything between an MPI and the kernel: here is no second socket, but there are cores."""
    ranks = runtime.show(tmp_path, mpi={"binding": binding}, cpu={"threadsPerProcess": 1})
    cpus = [set(rank["cpus"]) for rank in ranks]
    if binding == "core":
        assert [len(_parts(each, "thread_siblings_list")) for each in cpus] == [1, 1]
        assert not cpus[0] & cpus[1]
    else:
        kind = {"none": [os.sched_getaffinity(0)], "socket": _parts(os.sched_getaffinity(0), "core_siblings_list")}
        assert all(each in kind[binding] for each in cpus)


def _parts(cpus: set[int], siblings: str) -> list[set[int]]:
    """These CPUs by what they share, as the kernel lists it."""
    files = {cpu: Path(f"/sys/devices/system/cpu/cpu{cpu}/topology/{siblings}").read_text() for cpu in cpus}
    return [{cpu for cpu in cpus if files[cpu] == text} for text in dict.fromkeys(files.values())]


def _ranks(runtime: Runtime, run: dict[str, Any], folder: Path, **spec: Any) -> list[dict[str, Any]]:  # noqa: ANN401
    """Returns the output of the ranks of a job with one oneCCL worker in each."""
    out = folder / "ranks"
    out.mkdir()
    return runtime.show(out, "--ddp_backend", "ccl", **run, **spec)

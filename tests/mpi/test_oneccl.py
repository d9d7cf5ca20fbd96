"""Real oneCCL among the ranks of real MPI runtimes: what it is told works, and where its workers compute."""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import unavailable

from cluster import machine
from mpi.machines import Machine, built, placed
from mpi.runtimes import PROGRAMS, Runtime

pytestmark = pytest.mark.mpi

SOCKETS = Machine(sockets=2, numa_nodes=1, cores=24)
SUM = ["rank 0 of 2: 1", "rank 1 of 2: 1"]
_WORKER = re.compile(r"local process \[(\d):2\]: worker: 0, cpu: (\d+)")


@dataclass(frozen=True)
class OneCcl:
    """A program that uses oneCCL, and the library that it needs."""

    program: Path
    folder: Path

    def run(self, runtime: Runtime, folder: Path, **given: Any) -> subprocess.CompletedProcess[str]:  # noqa: ANN401
        """`k8sel run` of it. Intel MPI's folder has the libfabric, as the bindings' own does."""
        intel = runtime.folder.with_name("Intel")
        libraries = [self.folder / "lib", runtime.folder / "lib", intel / "lib"]
        shell = {
            **given.pop("shell", {}),
            "LD_LIBRARY_PATH": ":".join(map(str, libraries)),
            "I_MPI_ROOT": str(intel),
        }
        ccl = {"provider": "tcp", "logLevel": "info", **given.pop("ccl", {})}
        return runtime.run(str(self.program), str(folder / "kvs"), shell=shell, backend="ccl", ccl=ccl, **given)


@pytest.fixture(scope="module")
def oneccl(tmp_path_factory: pytest.TempPathFactory) -> OneCcl:
    """Built from programs/oneccl.cpp."""
    compiler = shutil.which("c++")
    if not compiler:
        unavailable("no C++ compiler: apt-get install g++")
    with machine.locked("up.lock"):
        try:
            machine.script("oneccl")
        except RuntimeError as error:
            unavailable(f"no oneCCL: {error}")
    folder, out = machine.CACHE / "oneccl", tmp_path_factory.mktemp("oneccl") / "oneccl"
    strict = ["-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", "-isystem", str(folder / "include")]
    source = PROGRAMS / "oneccl.cpp"
    subprocess.run([compiler, *strict, "-o", out, source, "-L", folder / "lib", "-lccl"], check=True)
    return OneCcl(out, folder)


def test_it_adds_up_by_what_each_mpi_needs(runtime: Runtime, oneccl: OneCcl, tmp_path: Path) -> None:
    result = oneccl.run(runtime, tmp_path)
    assert result.returncode == 0, result.stderr
    assert [line for line in sorted(result.stdout.splitlines()) if line.startswith("rank ")] == SUM


@pytest.mark.parametrize(
    ("ccl", "cpus"),
    [({}, [46, 92]), ({"workerAffinity": "47,95"}, [47, 95]), ({"workers": 2}, [46, 90])],
)
def test_workers_are_on_their_ranks_sockets(
    runtime: Runtime, oneccl: OneCcl, ccl: dict[str, Any], cpus: list[int], tmp_path: Path
) -> None:
    """The first worker of each rank. By itself, oneCCL knows only what Intel MPI has bound a rank to."""
    place = placed(SOCKETS, built(tmp_path), tmp_path)
    result = oneccl.run(runtime, tmp_path, **place.run, mpi={"binding": "socket"}, ccl=ccl)
    assert result.returncode == 0, result.stderr
    assert _workers(result.stdout) == {str(rank): cpu for rank, cpu in enumerate(cpus)}
    workers = ccl.get("workers", 1)
    assert f"OMP_NUM_THREADS={24 - workers} on 24 cores, {workers} for oneCCL" in result.stderr


def _workers(log: str) -> dict[str, int]:
    """The CPU of each local rank's worker, as oneCCL says it."""
    return {rank: int(cpu) for rank, cpu in _WORKER.findall(log)}

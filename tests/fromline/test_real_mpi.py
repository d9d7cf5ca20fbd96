"""A line of mpirun and its job file, both really started on a machine of two sockets: each rank gets the same."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mpi.machines import Machine, Place, built, placed
from mpi.runtimes import INSTALLED, ROOT, RUN, Runtime, installed

pytestmark = pytest.mark.mpi

MACHINE = Machine(sockets=2, numa_nodes=2, cores=12)
SHOW = """
import json, os, sys
ranks, sizes = ("PMI_RANK", "OMPI_COMM_WORLD_RANK"), ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
shown = {name: os.environ.get(name) for name in ("OMP_NUM_THREADS", "CCL_WORKER_COUNT", "GREETING")}
rank, size = ([os.environ[name] for name in each if name in os.environ] for each in (ranks, sizes))
line = json.dumps({"argv": sys.argv[1:], "rank": rank, "size": size, "cpus": sorted(os.sched_getaffinity(0)), **shown})
os.write(1, (line + "\\n").encode())
"""
ARGUMENTS = "--use_cpu 'two  words' '$HOME' ''"
OPEN = "GREETING='a b' mpirun --allow-run-as-root --host localhost:4 {} -x GREETING -x OMP_NUM_THREADS=12"
INTEL = "export CCL_WORKER_COUNT=1 GREETING='a b'\nmpirun {} -ppn 2 -genv OMP_NUM_THREADS=12"
MPICH = "GREETING='a b' HYDRA_TOPO_DEBUG=0 mpirun {} -genv OMP_NUM_THREADS 12"
_OPEN = (
    "-n 2 --bind-to none",
    "-n 4 --map-by socket",
    "-n 2 --map-by ppr:1:socket --bind-to socket",
    "-n 4 --map-by numa --bind-to numa",
    "-n 2 --map-by slot:PE=12 --bind-to core",
    "-n 4 --map-by ppr:4:node:PE=12",
)
_MPICH = ("-n 2", "-n 2 -bind-to none", "-n 4 -bind-to socket", "-n 4 -bind-to numa", "-n 2 -bind-to core:12")
_INTEL = (
    "-n 2",
    "-n 2 -genv I_MPI_PIN=0",
    "-n 2 -genv I_MPI_PIN_DOMAIN=socket",
    "-n 2 -genv I_MPI_PIN_DOMAIN numa",
    "-n 2 -genv I_MPI_PIN_CELL=core -genv I_MPI_PIN_DOMAIN=12",
    "-n 2 -genv I_MPI_PIN_DOMAIN=omp:scatter",
)
BOUND = {"Intel": (INTEL, _INTEL), "MPICH": (MPICH, _MPICH), "OpenMPI": (OPEN, _OPEN), "OpenMPI4": (OPEN, _OPEN)}
LINES = [(name, options) for name, (_, all_options) in BOUND.items() for options in all_options]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(tmp_path_factory.mktemp("machine"))


def _started(output: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"argv"')]
    return sorted(lines, key=lambda shown: str(shown["rank"]))


def _run(runtime: Runtime, place: Place, command: list[str], read: str = "") -> str:
    env = {**runtime.env, **place.shell, "PYTHONPATH": str(ROOT)}
    started = [*place.within, *command]
    ended = subprocess.run(started, input=read, cwd=place.folder, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(("name", "options"), LINES, ids=[" ".join(each) for each in LINES])
def test_each_rank_gets_the_same(name: str, options: str, mpis: Path, library: Path, tmp_path: Path) -> None:
    runtime, place = installed(name, mpis), placed(MACHINE, library, tmp_path)
    (tmp_path / "show.py").write_text(SHOW)
    sent = "".join(f" -x {variable}" for variable in place.env) if runtime.implementation == "OpenMPI" else ""
    exports = "".join(f"export {variable}={value}\n" for variable, value in place.env.items())
    line = f"{exports}{BOUND[name][0].format(options)}{sent} {sys.executable} show.py {ARGUMENTS}"
    by_line = _run(runtime, place, ["/bin/bash", "-c", line])
    job = _run(runtime, place, [sys.executable, "-m", "k8sel", "from", line])
    by_file = _run(runtime, place, RUN, job)

    assert f"implementation: {runtime.implementation}" in job
    assert len(_started(by_line)) == int(options.split()[1])
    assert _started(by_file) == _started(by_line)


def test_every_mpi_is_here() -> None:
    assert set(BOUND) == set(INSTALLED)

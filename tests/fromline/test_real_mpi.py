"""A line of mpirun and its job file, both really started: each rank gets the same, its CPUs among it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from mpi.runtimes import INSTALLED, ROOT, RUN, Runtime, installed

pytestmark = pytest.mark.mpi

SHOW = """
import json, os, sys
ranks, sizes = ("PMI_RANK", "OMPI_COMM_WORLD_RANK"), ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE")
names = ("OMP_NUM_THREADS", "CCL_WORKER_COUNT", "GREETING")
shown = {name: os.environ.get(name) for name in names}
rank, size = ([os.environ[name] for name in each if name in os.environ] for each in (ranks, sizes))
line = json.dumps({"argv": sys.argv[1:], "rank": rank, "size": size, "cpus": sorted(os.sched_getaffinity(0)), **shown})
os.write(1, (line + "\\n").encode())
"""
ARGUMENTS = "--use_cpu 'two  words' '$HOME' ''"
OPEN = "GREETING='a b' mpirun --allow-run-as-root --host localhost:2 -n 2 {} -x OMP_NUM_THREADS=1 -x GREETING"
INTEL = "export CCL_WORKER_COUNT=1\nexport GREETING='a b'\nmpirun -n 2 -ppn 2 {} -genv OMP_NUM_THREADS=1"
MPICH = "GREETING='a b' HYDRA_TOPO_DEBUG=0 mpirun -n 2 {} -genv OMP_NUM_THREADS 1"
_OPEN = (
    "--bind-to none",
    "--map-by socket --bind-to socket",
    "--map-by slot:PE=1 --bind-to core",
    "--map-by ppr:2:node:PE=1",
)
BOUND = {
    "Intel": (
        INTEL,
        (
            "",
            "-genv I_MPI_PIN=0",
            "-genv I_MPI_PIN_DOMAIN=socket",
            "-genv I_MPI_PIN_CELL=core -genv I_MPI_PIN_DOMAIN=1:compact",
        ),
    ),
    "MPICH": (MPICH, ("", "-bind-to none", "-bind-to socket", "-bind-to core", "-bind-to core:1 -map-by core:1")),
    "OpenMPI": (OPEN, _OPEN),
    "OpenMPI4": (OPEN, _OPEN),
}
LINES = [(name, line.format(options)) for name, (line, all_options) in BOUND.items() for options in all_options]


def _started(output: str) -> list[dict[str, object]]:
    lines = [json.loads(line) for line in output.splitlines() if line.startswith('{"argv"')]
    return sorted(lines, key=lambda shown: str(shown["rank"]))


def _run(runtime: Runtime, folder: Path, command: list[str], read: str = "") -> str:
    env = {**runtime.env, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run(command, input=read, cwd=folder, env=env, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(("name", "line"), LINES, ids=[" ".join(each) for each in LINES])
def test_each_rank_gets_the_same(name: str, line: str, mpis: Path, tmp_path: Path) -> None:
    runtime = installed(name, mpis)
    (tmp_path / "show.py").write_text(SHOW)
    line = f"{line} {sys.executable} show.py {ARGUMENTS}"
    by_line = _run(runtime, tmp_path, ["/bin/bash", "-c", line])
    job = _run(runtime, tmp_path, [sys.executable, "-m", "k8sel", "from", line])
    by_file = _run(runtime, tmp_path, RUN, job)

    assert runtime.implementation in job
    assert len(_started(by_line)) == 2
    assert _started(by_file) == _started(by_line)


def test_every_mpi_is_here() -> None:
    assert set(BOUND) == set(INSTALLED)

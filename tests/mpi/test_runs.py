"""`k8sel run` with real MPI runtimes: what their ranks are, what they are given, and how they end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from conftest import unavailable

from k8sel.facts.launchers import MPIS
from mpi.runtimes import PROGRAMS, ROOT, RUN, Runtime

pytestmark = pytest.mark.mpi

NUMBERS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
# Every job of mpirun has the same MASTER_PORT; there, no other test has it.
ALONE = ("unshare", "--net", "sh", "-c", 'ip link set lo up && exec "$@"', "sh")


@pytest.mark.parametrize("processes", [1, 2, 4])
def test_each_rank_gets_its_numbers_and_its_threads(runtime: Runtime, processes: int, tmp_path: Path) -> None:
    ranks = runtime.show(tmp_path, processesPerNode=processes, cpu={"threadsPerProcess": 3})
    numbers = [tuple(int(rank["env"][name]) for name in NUMBERS) for rank in ranks]
    assert numbers == [(rank, processes, rank, processes) for rank in range(processes)]
    same = {tuple(rank["env"][name] for name in ("MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")) for rank in ranks}
    assert same == {("127.0.0.1", "29500", "3")}


def test_each_rank_gets_what_the_job_file_says_and_no_device(runtime: Runtime, tmp_path: Path) -> None:
    said = {"GREETING": 'it\'s me, "you" = both', "EMPTY": ""}
    expected = {**said, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}
    ranks = runtime.show(tmp_path, env=[{"name": name, "value": value} for name, value in said.items()])
    assert [_only(expected, rank) for rank in ranks] == [expected] * 2


def test_settings_of_oneccl_reach_each_rank(runtime: Runtime, tmp_path: Path) -> None:
    ccl = {"workers": 2, "workerAffinity": "0,1,2,3", "provider": "tcp", "interface": "lo", "logLevel": "info"}
    expected = {
        "CCL_WORKER_COUNT": "2",
        "CCL_WORKER_AFFINITY": "0,1,2,3",
        "FI_PROVIDER": "tcp",
        "CCL_KVS_IFACE": "lo",
        "CCL_LOG_LEVEL": "info",
        **runtime.row.ccl,
    }
    ranks = runtime.show(tmp_path, "--ddp_backend", "ccl", ccl=ccl)
    assert [_only(expected, rank) for rank in ranks] == [expected] * 2


def test_the_numbers_are_those_of_mpi_itself(runtime: Runtime) -> None:
    library = str(runtime.folder / "lib" / runtime.library)
    result = runtime.run(runtime.python, str(PROGRAMS / "reduce.py"), library)
    host = Path("/proc/sys/kernel/hostname").read_text().strip()
    expected = [f"rank {rank} of 2 on {host}: 1, as in the environment: True" for rank in range(2)]
    assert sorted(result.stdout.splitlines()) == expected, result.stderr


@pytest.mark.torch
def test_torch_finds_the_other_ranks(runtime: Runtime, torch_env: dict[str, str]) -> None:
    if subprocess.run([*ALONE, "true"], capture_output=True, check=False).returncode:
        unavailable("no network namespace for a test's own ports: run as root, with iproute2")
    result = runtime.run(
        runtime.python,
        str(PROGRAMS / "gloo.py"),
        shell={"PYTHONPATH": f"{ROOT}:{torch_env['PYTHONPATH']}"},
        within=ALONE,
        env=[{"name": "PYTHONPATH", "value": torch_env["PYTHONPATH"]}],
        cpu={"threadsPerProcess": 1},
    )
    assert sorted(result.stdout.splitlines()) == [f"rank {rank} of 2: 1, 1 threads" for rank in range(2)], result.stderr


def test_one_machine_needs_no_ssh(runtime: Runtime, tmp_path: Path) -> None:
    """Without one, Open MPI 4 stops before it starts anything, and Open MPI 5 starts no more processes than cores."""
    programs, ranks = tmp_path / "bin", tmp_path / "ranks"
    programs.mkdir()
    ranks.mkdir()
    for program in ("sh", "env", "uname", "hostname"):
        (programs / program).symlink_to(_program(program))
    one_cpu = (_program("taskset"), "--cpu-list", str(min(os.sched_getaffinity(0))))
    path = f"{runtime.folder / 'bin'}:{programs}"
    shown = runtime.show(ranks, shell={"PATH": path}, within=one_cpu, processesPerNode=3)
    assert [rank["env"]["RANK"] for rank in shown] == ["0", "1", "2"]


def _program(name: str) -> str:
    path = shutil.which(name)
    assert path is not None, name
    return path


def test_each_says_of_itself_what_no_other_says(runtime: Runtime) -> None:
    program = runtime.folder / "bin" / runtime.row.program
    said = subprocess.run([program, "--version"], capture_output=True, text=True, check=True, env=runtime.env).stdout
    assert [name for name, row in MPIS.items() if row.says in said] == [runtime.implementation]


@pytest.mark.parametrize("status", [7, 78])
def test_the_status_is_the_programs(runtime: Runtime, status: int) -> None:
    assert runtime.run(runtime.python, "-c", f"raise SystemExit({status})").returncode == status


def test_devices_that_are_not_there_end_the_job_before_any_rank(runtime: Runtime, tmp_path: Path) -> None:
    ran = tmp_path / "ran"
    result = runtime.run("touch", str(ran), accelerator={"type": "cuda", "count": 2})
    assert (result.returncode, ran.exists()) == (78, False)
    assert "2 or more cuda devices expected, 0 found" in result.stderr


def test_trap_a9_a_rank_that_fails_before_mpi_starts(runtime: Runtime, tmp_path: Path) -> None:
    """hydra leaves the others alive, which is why nothing is checked in the ranks alone."""
    stays = "0.5" if runtime.outlived else "600"
    result = runtime.run(runtime.python, str(PROGRAMS / "fail.py"), str(tmp_path), "7", stays)
    assert result.returncode == 7
    assert result.stdout == ("rank 0 lived on\n" if runtime.outlived else "")


def test_trap_a10_a_signal_reaches_all_ranks_and_none_is_left(runtime: Runtime, tmp_path: Path) -> None:
    """The process that is signalled is the MPI's own program: Intel's `mpirun` would be a shell that keeps it.

    hydra then waits for the ranks, and Open MPI kills them within a second (5: a quarter of one).
    """
    with _started(runtime, runtime.python, str(PROGRAMS / "stop.py"), str(tmp_path), "5") as child:
        assert Path(f"/proc/{child.pid}/exe").resolve().is_relative_to(runtime.folder)
        child.send_signal(signal.SIGTERM)
        status = child.wait()
    logs = [(tmp_path / str(rank)).read_text().split() for rank in range(2)]
    assert (status, ["saved" in log for log in logs]) == ((5, [True] * 2) if runtime.saves else (1, [False] * 2))
    assert [pid for pid, *_ in logs if _alive(pid)] == []


@contextmanager
def _started(runtime: Runtime, *command: str) -> Iterator[subprocess.Popen[str]]:
    """`k8sel run` whose two ranks are up."""
    pipe = subprocess.PIPE
    with subprocess.Popen(RUN, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=runtime.env, cwd=ROOT) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        child.stdin.write(runtime.job(*command))
        child.stdin.close()
        assert [child.stdout.readline() for _ in range(2)] == ["up\n"] * 2
        try:
            yield child
        finally:
            child.terminate()


def _only(names: Mapping[str, str], rank: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the values of these variables in a rank's environment."""
    return {name: rank["env"].get(name) for name in names}


def _alive(pid: str, seconds: float = 10) -> bool:
    """Reports whether it still runs after a while; a zombie does not."""
    end = time.monotonic() + seconds
    while _running(pid) and time.monotonic() < end:
        time.sleep(0.05)
    return _running(pid)


def _running(pid: str) -> bool:
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False

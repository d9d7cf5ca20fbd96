"""Tests the number of torch's threads: a process's share of the cores, minus oneCCL's workers."""

from __future__ import annotations

import sys

import pytest
from entrypoint.machines import Box

from launchers.starting import ADDS, CPUS, ON_TWO_CPUS, job, ranks, start

pytestmark = pytest.mark.torch

SIBLINGS = [f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list" for cpu in CPUS]
BOTH = ",".join(map(str, CPUS))
# What the machine says of the two CPUs that the process has, a variable of the shell, and the threads.
MACHINES: dict[str, tuple[dict[str, str], dict[str, str], int]] = {
    "two cores": (dict(zip(SIBLINGS, map(str, CPUS), strict=True)), {}, 2),
    "two threads of one core": (dict.fromkeys(SIBLINGS, BOTH), {}, 1),
    "two cores, one for oneCCL": ({}, {"CCL_WORKER_COUNT": "1"}, 1),
}


@pytest.mark.parametrize("machine", MACHINES)
def test_torch_computes_with_the_threads_that_its_cores_leave(env: dict[str, str], box: Box, machine: str) -> None:
    files, shell, threads = MACHINES[machine]
    for path, text in files.items():
        box.write(path, f"{text}\n")
    command = [*ON_TWO_CPUS, sys.executable, "-m", "k8sel", "run", "-q", "-"]
    text = job(ADDS, "torch", launcher="python", accelerator={"type": "cpu"})
    (seen,) = ranks(start(command, {**env, **shell}, text))
    assert (seen["env"]["OMP_NUM_THREADS"], seen["threads"]) == (str(threads), threads)

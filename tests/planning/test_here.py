"""Tests the number of a job's processes on this machine's CPUs."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from k8sel import api
from k8sel.machine import hardware

JOB = b"""\
apiVersion: k8sel.dev/v1alpha1
kind: AcceleratedJob
metadata: {name: job}
spec: {image: img, command: [python, train.py], launcher: torchrun, accelerator: {type: cpu}, cpu: {processPer: PART}}
"""
# Two sockets of two NUMA nodes each, of two CPUs each; and one node that has only memory.
SOCKETS = (0, 0, 0, 0, 1, 1, 1, 1)
NUMA = ("0-1", "2-3", "4-5", "6-7", "")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A machine that tells its parts."""
    for cpu, socket in enumerate(SOCKETS):
        topology = tmp_path / f"sys/devices/system/cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{socket}\n")
    for node, cpus in enumerate(NUMA):
        folder = tmp_path / f"sys/devices/system/node/node{node}"
        folder.mkdir(parents=True)
        (folder / "cpulist").write_text(f"{cpus}\n")
    monkeypatch.setattr(hardware, "ROOT", str(tmp_path))
    return tmp_path


def may_use(monkeypatch: pytest.MonkeyPatch, cpus: set[int]) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: cpus)


@pytest.mark.parametrize(
    ("cpus", "sockets", "numa_nodes"),
    [
        (set(range(8)), 2, 4),
        ({0, 1, 2, 3}, 1, 2),
        ({1, 4}, 2, 2),
        ({7}, 1, 1),
        ({3, 4, 99}, 2, 2),  # the kernel does not say where CPU 99 is
        ({99}, 1, 1),
    ],
)
def test_only_parts_whose_cpus_this_process_may_use_count(
    machine: Path, monkeypatch: pytest.MonkeyPatch, cpus: set[int], sockets: int, numa_nodes: int
) -> None:
    may_use(monkeypatch, cpus)

    assert (hardware.sockets(), hardware.numa_nodes()) == (sockets, numa_nodes)


def test_a_machine_that_does_not_say_is_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "ROOT", str(tmp_path))

    assert (hardware.sockets(), hardware.numa_nodes()) == (1, 1)


def test_a_kernel_without_affinity_lets_every_cpu_count(machine: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "sched_getaffinity")
    monkeypatch.setattr(os, "cpu_count", lambda: 8)

    assert (hardware.sockets(), hardware.numa_nodes()) == (2, 4)


@pytest.mark.parametrize("door", ["run", "docker"])
@pytest.mark.parametrize(("part", "processes"), [("socket", 2), ("numa", 3)])
def test_a_job_has_a_process_for_each_part(
    machine: Path, monkeypatch: pytest.MonkeyPatch, door: str, part: str, processes: int
) -> None:
    may_use(monkeypatch, {0, 2, 3, 4})
    (job,) = api.load(JOB.replace(b"PART", part.encode()), "job.yaml")

    assert api.plan(job, door).processes_per_node == processes

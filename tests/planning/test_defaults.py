"""What is filled in where the job file says nothing."""

from __future__ import annotations

from typing import Any

import pytest

from k8sel import names
from k8sel.defaults import default
from k8sel.spec import Spec
from planning.jobs import job


def defaulted(accelerator: dict[str, Any], door: str = "kubernetes", **spec: object) -> Spec:
    return default(job(accelerator, spec), door, sockets=2).spec


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate", "deepspeed", "mpirun"])
@pytest.mark.parametrize(
    ("accelerator", "door", "processes"),
    [
        ({"type": "cuda", "count": 4}, "kubernetes", 4),
        ({"type": "cuda", "devices": [2, 0]}, "run", 2),
        ({"type": "cuda"}, "docker", 1),
        ({"type": "cpu"}, "kubernetes", 1),
        ({"type": "cpu"}, "run", 2),
        ({"type": "cpu"}, "docker", 2),
        ({"type": "mps"}, "run", 1),
    ],
)
def test_a_launcher_starts_a_process_for_each_device(
    launcher: str, accelerator: dict[str, Any], door: str, processes: int
) -> None:
    assert defaulted(accelerator, door, launcher=launcher).processes_per_node == processes


def test_python_starts_one_process() -> None:
    assert defaulted({"type": "cuda", "count": 4}, launcher="python").processes_per_node == 1


@pytest.mark.parametrize(
    ("launcher", "target"),
    [
        ("torchrun", "PyTorchJob"),
        ("accelerate", "PyTorchJob"),
        ("deepspeed", "PyTorchJob"),
        ("python", "PyTorchJob"),
        ("mpirun", "MPIJob"),
    ],
)
def test_a_launcher_has_its_target(launcher: str, target: str) -> None:
    assert defaulted({"type": "cpu"}, launcher=launcher).target == target


@pytest.mark.parametrize(
    ("given", "count", "devices"),
    [
        ({"count": 2}, 2, (0, 1)),
        ({"devices": [2, 0]}, 3, (2, 0)),
        ({"count": 4, "devices": [2, 0]}, 4, (2, 0)),
        ({"devices": []}, 0, ()),
        ({}, 1, (0,)),
    ],
)
def test_count_and_devices_complete_each_other(given: dict[str, Any], count: int, devices: tuple[int, ...]) -> None:
    accelerator = defaulted({"type": "cuda", **given}).accelerator

    assert (accelerator.count, accelerator.devices) == (count, devices)


@pytest.mark.parametrize(
    ("gang", "launcher", "scheduler"),
    [
        ("volcano", "torchrun", "volcano"),
        ("coscheduling", "torchrun", "scheduler-plugins-scheduler"),
        ("volcano", "mpirun", None),  # mpi-operator's to write
        (None, "torchrun", None),
    ],
)
def test_a_gang_has_its_scheduler(gang: str | None, launcher: str, scheduler: str | None) -> None:
    scheduling = defaulted({"type": "cpu"}, launcher=launcher, scheduling={"gang": gang}).scheduling

    assert scheduling.scheduler_name == scheduler


@pytest.mark.parametrize(
    ("target", "count", "expected"),
    [
        ("PyTorchJob", 1, "j-master-0"),
        ("PyTorchJob", 11, "j-worker-9"),
        ("PyTorchJob", 12, "j-worker-10"),
        ("MPIJob", 1, "j-launcher"),
        ("MPIJob", 101, "j-worker-100"),
    ],
)
def test_the_longest_name_is_that_of_the_last_pod(target: str, count: int, expected: str) -> None:
    assert len(names.longest("j", target, count)) == len(expected)

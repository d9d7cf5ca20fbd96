"""Tests the defaults of fields that the job file leaves out."""

from __future__ import annotations

from typing import Any

import pytest

from k8sel.facts.kinds import JOB_KINDS
from k8sel.facts.platforms import PLATFORMS
from k8sel.jobfile.complete import CompleteSpec
from k8sel.jobfile.defaults import default
from k8sel.jobfile.schema import schema
from k8sel.jobfile.validate import errors, validate
from planning.jobs import job


def defaulted(accelerator: dict[str, Any], platform: str = "kubernetes", **spec: object) -> CompleteSpec:
    return default(job(accelerator, spec), PLATFORMS[platform], sockets=2, numa_nodes=4).spec


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate", "deepspeed", "mpirun"])
@pytest.mark.parametrize(
    ("accelerator", "platform", "processes"),
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
    launcher: str, accelerator: dict[str, Any], platform: str, processes: int
) -> None:
    assert defaulted(accelerator, platform, launcher=launcher).processes_per_node == processes


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate", "deepspeed", "mpirun"])
@pytest.mark.parametrize("platform", ["run", "docker"])
@pytest.mark.parametrize(("part", "processes"), [("socket", 2), ("numa", 4)])
@pytest.mark.parametrize("accelerator", [{"type": "cpu"}, {"type": "cuda", "devices": []}])
def test_processes_come_from_the_parts_of_this_machine(
    launcher: str, platform: str, part: str, processes: int, accelerator: dict[str, Any]
) -> None:
    spec = defaulted(accelerator, platform, launcher=launcher, cpu={"processPer": part, "threadsPerProcess": 3})

    assert spec.processes_per_node == processes
    assert (spec.cpu.process_per, spec.cpu.threads_per_process) == (None, 3)


@pytest.mark.parametrize(
    ("accelerator", "platform", "given", "processes"),
    [
        ({"type": "cpu"}, "kubernetes", {}, 1),
        ({"type": "cpu"}, "run", {"processesPerNode": 3}, 3),
        ({"type": "cuda", "count": 2}, "run", {}, 2),
        ({"type": "cpu"}, "docker", {"launcher": "python"}, 1),
    ],
)
def test_a_part_that_decides_nothing_stays_for_a_rule_to_name(
    accelerator: dict[str, Any], platform: str, given: dict[str, Any], processes: int
) -> None:
    spec = defaulted(accelerator, platform, cpu={"processPer": "numa"}, **given)

    assert (spec.processes_per_node, spec.cpu.process_per) == (processes, "numa")


@pytest.mark.parametrize(
    ("command", "backend"),
    [
        (["--ddp_backend", "ccl"], "ccl"),
        (["--ddp-backend", "ccl"], "ccl"),
        (["--ddp_backend=ccl"], "ccl"),
        (["--ddp-backend=gloo", "--ddp_backend", "mpi"], "mpi"),  # argparse's last one
        (["--ddp_backend", "my_own"], None),
        (["--ddp_backend=ccl", "--ddp_backend"], "ccl"),
        (["--ddp_backend="], None),
        (["ccl"], None),
    ],
)
def test_the_backend_is_what_the_command_says(command: list[str], backend: str | None) -> None:
    assert defaulted({"type": "cpu"}, command=["python", "train.py", *command]).backend == backend


def test_a_backend_of_the_file_is_its_own() -> None:
    assert defaulted({"type": "cpu"}, backend="gloo", command=["a", "--ddp_backend", "ccl"]).backend == "gloo"


@pytest.mark.parametrize(
    ("given", "workers"),
    [
        ({"backend": "ccl"}, 1),
        ({"backend": "xccl"}, 1),
        ({"backend": "ccl", "ccl": {"workers": 4}}, 4),
        ({"backend": "gloo"}, None),
        ({"backend": "unheard"}, None),
        ({}, None),
    ],
)
def test_oneccl_has_one_worker_where_it_is_used(given: dict[str, Any], workers: int | None) -> None:
    assert defaulted({"type": "xpu"}, **given).ccl.workers == workers


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("Spec", "nodes", 1),
        ("Accelerator", "order", "pci"),
        ("Accelerator", "allocation", "devicePlugin"),
        ("Accelerator", "isolation", "node"),
        ("Ccl", "workers", 1),
        ("Mpi", "implementation", "OpenMPI"),
        ("Mpi", "sshPort", 2222),
        ("Policy", "maxRestarts", 0),
        ("Policy", "backoffLimit", 0),
        ("Policy", "cleanPodPolicy", "Running"),
        ("Entrypoint", "mode", "configMap"),
    ],
)
def test_an_editor_shows_a_constant_default(part: str, field: str, value: object) -> None:
    assert schema()["$defs"][part]["properties"][field]["default"] == value


@pytest.mark.parametrize(
    ("given", "path"),
    [({"mpi": {"implementation": "OpenMPI", "sshPort": 2222}}, "mpi"), ({"ccl": {"workers": 1}}, "ccl")],
)
def test_a_field_that_nothing_reads_is_refused_even_with_its_default(given: dict[str, Any], path: str) -> None:
    found = errors(validate(default(job({"type": "cpu"}, given))))

    assert [problem.path for problem in found] == [("spec", path)]


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
    assert len(JOB_KINDS[target].longest("j", count)) == len(expected)

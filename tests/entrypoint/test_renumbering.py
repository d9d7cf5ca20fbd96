"""`devices: [2, 0]` where numbers change their meaning in a way that the matrix (tests/matrix) does not have.

The tests assert what a process sees: a small model of CUDA reads the environment that the entrypoint hands on.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path

import pytest
from planning.jobs import container, emit, plan, variables

from entrypoint.machines import Box, End, Gpu, devices, uuid
from k8sel.planning.plan import JobPlan

BUSES = ("0000:1a:00.0", "0000:3b:00.0", "0000:86:00.0", "0000:c1:00.0")  # of the host's GPUs 0 to 3, counted by PCI
FASTEST = (3, 1, 0, 2)  # the same GPUs as CUDA counts them without CUDA_DEVICE_ORDER
CUDA = {"type": "cuda", "devices": [2, 0]}
TORCHRUN = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}


def minor(number: int) -> int:
    """The device node of the host's GPU: against PCI order."""
    return len(BUSES) - 1 - number


def host(box: Box, *held: int, known: bool = True) -> None:
    """A container with these of the host's four GPUs; ``known``: their UUIDs can be read."""
    box.gpus(
        *(Gpu(minor(n), bus, "" if known else None, node=n in held) for n, bus in enumerate(BUSES)),
    )


def start(box: Box, job_plan: JobPlan, env: Mapping[str, str] | None = None) -> End:
    """A node's start, told what the plan tells it."""
    return box.start(env={"K8SEL_EXPECT": job_plan.expectation.to_json(), **(env or {})})


def cuda(env: Mapping[str, str], *held: int) -> list[int]:
    """The host's GPUs that CUDA shows a process, its device 0 first. CUDA programming guide, environment variables."""
    order = [n for n in (range(4) if env.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" else FASTEST) if n in held]
    names = {str(index): n for index, n in enumerate(order)} | {uuid(minor(n)): n for n in held}
    shown: list[int] = []
    for word in env["CUDA_VISIBLE_DEVICES"].split(","):
        if word not in names:  # the first wrong one ends the list
            break
        shown.append(names[word])
    return shown


@pytest.mark.parametrize("numbers", [[2, 0], [0, 3, 1], [3, 2, 1, 0]])
def test_the_hosts_numbers_where_every_gpu_is_there(numbers: list[int], box: Box) -> None:
    host(box, 0, 1, 2, 3)
    assert cuda(start(box, plan({"type": "cuda", "devices": numbers}, "run")).env, 0, 1, 2, 3) == numbers


def test_without_an_order_variable_numbers_would_count_by_speed(box: Box) -> None:
    host(box, 0, 1, 2, 3, known=False)
    env = start(box, plan(CUDA, "run")).env
    assert env["CUDA_VISIBLE_DEVICES"] == "2,0"
    assert cuda(env, 0, 1, 2, 3) == [2, 0]
    assert cuda(start(box, plan({**CUDA, "order": "fastest"}, "run")).env, 0, 1, 2, 3) == [FASTEST[2], FASTEST[0]]


def test_inside_positions_are_ranks_among_the_exposed(box: Box) -> None:
    job_plan = plan({"type": "cuda", "devices": [3, 0, 2]}, "docker")
    host(box, *job_plan.devices.exposed, known=False)
    env = start(box, job_plan).env
    assert env["CUDA_VISIBLE_DEVICES"] == "2,0,1"
    assert cuda(env, 0, 2, 3) == [3, 0, 2]


def test_the_hosts_numbers_inside_would_leave_nothing(box: Box) -> None:
    host(box, 0, 2, known=False)
    assert cuda({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "2,0"}, 0, 2) == []
    by_hand = box.start(expect=devices(2, 0))
    assert (by_hand.status, by_hand.out) == (78, "")
    assert "3 or more cuda devices expected, 2 found" in by_hand.message
    assert "use positions 0 to 1" in by_hand.message
    stale = start(box, plan(CUDA, "docker"), {"CUDA_VISIBLE_DEVICES": "2,0"})
    assert stale.status == 78
    assert "CUDA_VISIBLE_DEVICES=2,0 is set, 1,0 expected" in stale.message


def test_replicas_of_one_gpu_are_one_device(box: Box, fake_nvml: Path) -> None:
    box.library(fake_nvml)
    box.nodes(1)
    job_plan = plan({"type": "cuda", "count": 2, "resource": "nvidia.com/gpu.shared"})
    end = start(box, job_plan, {"NVIDIA_VISIBLE_DEVICES": f"{uuid(1)},{uuid(1)}"})
    assert (end.status, end.out) == (78, "")
    assert "2 cuda devices expected, 1 found (0000:70:00.0) by NVML" in end.message
    assert "replicas of a shared device count once" in end.message


def test_a_part_of_a_gpu_is_masked_by_its_own_uuid_in_each_process(box: Box, fake_nvml: Path) -> None:
    box.library(fake_nvml)
    box.nodes(1)
    parts = {"FAKE_NVML_MIG": ";1g.10gb,1g.10gb,1g.10gb", "FAKE_NVML_DRIVER": "550.54.15"}
    accelerator = {**CUDA, "resource": "nvidia.com/mig-1g.10gb"}
    together = start(box, plan(accelerator), parts)
    assert together.status == 78
    assert "shows a process one part of a GPU (MIG) only" in together.message
    expect = {"K8SEL_EXPECT": plan({**accelerator, "isolation": "process"}).expectation.to_json()}
    each = [box.start("rank", "env", env={**TORCHRUN, **parts, **expect, "LOCAL_RANK": rank}).mask for rank in "01"]
    assert each == [f"MIG-00000000-0000-0000-000{place}-000000000001" for place in (3, 1)]


def test_trap_deepspeeds_own_launcher_sorts_and_renumbers() -> None:
    launch = plan(CUDA, launcher="deepspeed").launch
    assert launch == plan(CUDA, launcher="torchrun").launch
    assert "deepspeed" not in launch


def test_trap_accelerate_would_write_a_mask_of_its_own() -> None:
    launch = plan(CUDA, launcher="accelerate").launch
    assert launch[launch.index("--gpu_ids") + 1] == "all"


def test_trap_torchrun_would_count_devices_and_cpus_itself(box: Box) -> None:
    launch = plan(CUDA, launcher="torchrun").launch
    assert launch[launch.index("--nproc-per-node") + 1] == "2"
    host(box, 0, 1, 2)
    assert int(start(box, plan(CUDA, launcher="torchrun")).env["OMP_NUM_THREADS"]) >= 1  # set, it leaves it alone


def test_trap_mpiruns_ranks_get_nothing_that_is_not_sent_and_mask_themselves() -> None:
    job_plan = plan(CUDA, launcher="mpirun", nodes=2)
    launch = job_plan.launch
    assert ("-x", "K8SEL_EXPECT") in set(pairwise(launch))
    assert launch[launch.index("rank") - 1].startswith("/k8sel/")  # in front of each rank, where its devices are
    assert not [word for word in launch if word.startswith("CUDA_VISIBLE_DEVICES")]
    launcher = emit(CUDA, launcher="mpirun", nodes=2)["spec"]["mpiReplicaSpecs"]["Launcher"]
    assert variables(container(launcher))["NVIDIA_VISIBLE_DEVICES"] == "void"

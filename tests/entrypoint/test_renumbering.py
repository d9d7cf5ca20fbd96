"""`devices: [2, 0]`, allotted and started in each of the ways in which numbers change their meaning: one test for each.

What is asserted is what a process sees: small models of the drivers read the environment that the entrypoint hands on.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from planning.jobs import container, emit, job, plan, variables

from entrypoint.machines import Box, End, Gpu, devices, uuid
from entrypoint.trees import Card, amd, drm, gaudi, kfd, tiles
from k8sel.errors import SpecError
from k8sel.jobfile.defaults import default
from k8sel.jobfile.load import load
from k8sel.jobfile.validate import errors, validate
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


def level_zero(env: Mapping[str, str], held: int) -> list[int]:
    """Positions that Level Zero shows, by PCI address. level-zero-spec scripts/core/PROG.rst, "Affinity Mask"."""
    assert env["ZE_ENABLE_PCI_ID_DEVICE_ORDER"] == "1"
    chosen = env["ZE_AFFINITY_MASK"].split(",")
    return [position for position in range(held) if str(position) in chosen]


def hip(env: Mapping[str, str], held: int) -> list[int]:
    """HSA's numbers that HIP shows. ROCm/clr rocclr/device/rocm/rocdevice.cpp."""
    left = [int(word) for word in env.get("ROCR_VISIBLE_DEVICES", ",".join(map(str, range(held)))).split(",")]
    words = env["HIP_VISIBLE_DEVICES"].split(",")
    return [left[int(word)] for word in words if int(word) < len(left)]


def refused(accelerator: dict[str, Any], door: str = "kubernetes", **spec: object) -> list[str]:
    """The fields of a job that are wrong."""
    return [str(problem).split(": ")[0] for problem in errors(validate(default(job(accelerator, spec), door), door))]


@pytest.mark.parametrize("numbers", [[2, 0], [0, 3, 1], [3, 2, 1, 0]])
def test_row_1_the_hosts_numbers_where_every_gpu_is_there(numbers: list[int], box: Box) -> None:
    host(box, 0, 1, 2, 3)
    assert cuda(start(box, plan({"type": "cuda", "devices": numbers}, "run")).env, 0, 1, 2, 3) == numbers


def test_row_2_without_an_order_variable_numbers_would_count_by_speed(box: Box) -> None:
    host(box, 0, 1, 2, 3, known=False)
    env = start(box, plan(CUDA, "run")).env
    assert env["CUDA_VISIBLE_DEVICES"] == "2,0"
    assert cuda(env, 0, 1, 2, 3) == [2, 0]
    assert cuda(start(box, plan({**CUDA, "order": "fastest"}, "run")).env, 0, 1, 2, 3) == [FASTEST[2], FASTEST[0]]


@pytest.mark.parametrize("door", ["docker", "kubernetes"])
def test_row_3_exposing_is_a_set_and_the_order_comes_from_the_mask(door: str, box: Box) -> None:
    job_plan = plan({**CUDA, "allocation": "host"}, door)
    assert job_plan.devices.exposed == (0, 2)
    assert job_plan.devices.exposure_env == {"NVIDIA_VISIBLE_DEVICES": "0,2"}
    host(box, *job_plan.devices.exposed)
    assert cuda(start(box, job_plan).env, 0, 2) == [2, 0]


def test_row_4_inside_positions_are_ranks_among_the_exposed(box: Box) -> None:
    job_plan = plan({"type": "cuda", "devices": [3, 0, 2]}, "docker")
    host(box, *job_plan.devices.exposed, known=False)
    env = start(box, job_plan).env
    assert env["CUDA_VISIBLE_DEVICES"] == "2,0,1"
    assert cuda(env, 0, 2, 3) == [3, 0, 2]


def test_row_5_the_hosts_numbers_inside_would_leave_nothing(box: Box) -> None:
    host(box, 0, 2, known=False)
    assert cuda({"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": "2,0"}, 0, 2) == []
    by_hand = box.start(expect=devices(2, 0))
    assert (by_hand.status, by_hand.out) == (78, "")
    assert "3 or more cuda devices expected, 2 found" in by_hand.message
    assert ": positions count from 0, and the last one here is 1" in by_hand.message
    stale = start(box, plan(CUDA, "docker"), {"CUDA_VISIBLE_DEVICES": "2,0"})
    assert stale.status == 78
    assert "CUDA_VISIBLE_DEVICES=2,0 is set already, and the job says 1,0" in stale.message


def test_row_6_uuids_mean_the_same_whatever_counts(box: Box) -> None:
    job_plan = plan(CUDA, "docker")
    host(box, *job_plan.devices.exposed)
    env = start(box, job_plan).env
    assert env["CUDA_VISIBLE_DEVICES"] == f"{uuid(minor(2))},{uuid(minor(0))}"
    assert cuda({**env, "CUDA_DEVICE_ORDER": "FASTEST_FIRST"}, 0, 2) == [2, 0]


def test_row_7_on_kubernetes_positions_count_the_plugins_choice(box: Box) -> None:
    job_plan = plan({**CUDA, "count": 3})
    host(box, 0, 1, 3)  # whatever the plugin took
    assert cuda(start(box, job_plan).env, 0, 1, 3) == [3, 0]
    assert refused({**CUDA, "count": 2}) == ["spec.accelerator.devices[0]"]


def test_row_8_no_exposing_variable_beside_a_request() -> None:
    only = container(emit(CUDA)["spec"]["pytorchReplicaSpecs"]["Master"])
    assert only["resources"]["limits"]["nvidia.com/gpu"] == "3"
    assert "NVIDIA_VISIBLE_DEVICES" not in variables(only)
    given = [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "2,0"}]
    assert refused(CUDA, env=given) == ["spec.env[0].name"]


def test_row_9_replicas_of_one_gpu_are_one_device(box: Box, fake_nvml: Path) -> None:
    box.library(fake_nvml)
    box.nodes(1)
    job_plan = plan({"type": "cuda", "count": 2, "resource": "nvidia.com/gpu.shared"})
    end = start(box, job_plan, {"NVIDIA_VISIBLE_DEVICES": f"{uuid(1)},{uuid(1)}"})
    assert (end.status, end.out) == (78, "")
    assert "2 cuda devices expected, 1 found (0000:70:00.0) by NVML" in end.message
    assert "replicas of one shared device count once" in end.message


def test_row_10_a_part_of_a_gpu_is_masked_by_its_own_uuid_in_each_process(box: Box, fake_nvml: Path) -> None:
    box.library(fake_nvml)
    box.nodes(1)
    parts = {"FAKE_NVML_MIG": ";1g.10gb,1g.10gb,1g.10gb", "FAKE_NVML_DRIVER": "550.54.15"}
    accelerator = {**CUDA, "resource": "nvidia.com/mig-1g.10gb"}
    together = start(box, plan(accelerator), parts)
    assert together.status == 78
    assert "CUDA shows a process one part of a GPU (MIG) only" in together.message
    expect = {"K8SEL_EXPECT": plan({**accelerator, "isolation": "process"}).expectation.to_json()}
    each = [box.start("rank", "env", env={**TORCHRUN, **parts, **expect, "LOCAL_RANK": rank}).mask for rank in "01"]
    assert each == [f"MIG-00000000-0000-0000-000{place}-000000000001" for place in (3, 1)]


def test_row_11_dynamic_allocation_is_not_there_yet() -> None:
    text = (
        "apiVersion: k8sel.dev/v1alpha1\nkind: AcceleratedJob\nmetadata: {name: job}\n"
        "spec:\n  image: img\n  command: [python, train.py]\n  launcher: torchrun\n"
        "  accelerator: {type: cuda, devices: [2, 0], allocation: dra}\n"
    )
    with pytest.raises(SpecError, match=r"spec\.accelerator\.allocation: .*\"dra\".*devicePlugin, host"):
        load(text.encode(), "job.yaml")


def xpus(box: Box) -> None:
    drm(box, Card(128, "c1"), Card(129, "86"), Card(130, "1a"))


def test_row_12_a_mask_of_level_zeros_is_a_set(box: Box) -> None:
    xpus(box)
    ascending = start(box, plan({"type": "xpu", "devices": [0, 2]}))
    assert ascending.env["ZE_AFFINITY_MASK"] == "0,2"
    assert level_zero(ascending.env, 3) == [0, 2]
    assert refused({"type": "xpu", "devices": [2, 0]}) == ["spec.accelerator.devices"]
    assert box.start(expect={"accelerator": "xpu", "devices": [2, 0]}).status == 78
    accelerator = {"type": "xpu", "devices": [2, 0], "isolation": "process"}
    assert refused(accelerator) == []
    expect = {"K8SEL_EXPECT": plan(accelerator).expectation.to_json()}
    each = [box.start("rank", "env", env={**TORCHRUN, **expect, "LOCAL_RANK": rank}).env for rank in "01"]
    assert [level_zero(env, 3) for env in each] == [[2], [0]]


@pytest.mark.parametrize(("hierarchy", "card"), [("FLAT", "0000:3b:00.0, tile 0"), ("COMPOSITE", "0000:86:00.0 ")])
def test_row_13_what_two_counts_on_cards_of_two_tiles_is_written_beside_the_mask(
    hierarchy: str, card: str, box: Box
) -> None:
    for number, bus in enumerate(("1a", "3b", "86")):
        drm(box, each := Card(128 + number, bus, driver="xe"))
        tiles(box, each, 2**36, 2**36)
    end = start(box, plan({"type": "xpu", "devices": [2]}, "run"), {"ZE_FLAT_DEVICE_HIERARCHY": hierarchy})
    assert (end.env["ZE_AFFINITY_MASK"], end.env["ZE_FLAT_DEVICE_HIERARCHY"]) == ("2", hierarchy)
    assert f"xpu device 2 of {6 if hierarchy == 'FLAT' else 3}, {card}" in end.err
    unset = start(box, plan({"type": "xpu", "devices": [2]}, "run"))
    assert unset.env["ZE_FLAT_DEVICE_HIERARCHY"] == "COMPOSITE"  # never the driver's own default, which depends


@pytest.mark.parametrize("first", [0, 4])
def test_row_14_modules_are_permuted_and_the_exposing_variable_says_no_order(first: int, box: Box) -> None:
    gaudi(box, (5, first), (4, first + 1), (7, first + 2), (6, first + 3))
    modules = f"{first + 3},{first},{first + 1},{first + 2}"
    plugin = {"HABANA_VISIBLE_DEVICES": "7,4,5,6", "HABANA_VISIBLE_MODULES": modules}
    end = start(box, plan({"type": "hpu", "devices": [2, 0], "count": 4}), plugin)
    assert end.env["HABANA_VISIBLE_MODULES"] == f"{first + 2},{first}"  # local rank r takes element r
    assert "hpu device 2 of 4, 0000:07:00.0" in end.err


def test_row_15_one_mask_alone_on_rocm(box: Box) -> None:
    kfd(box, (0, "0"), (128, "1"), (129, "2"), (130, "3"))
    drm(box, *amd((128, "1a"), (129, "3b"), (130, "86")))
    job_plan = plan({"type": "rocm", "devices": [2, 0]})
    env = start(box, job_plan).env
    assert hip(env, 3) == [2, 0]
    assert hip({**env, "ROCR_VISIBLE_DEVICES": "2,0"}, 3) != [2, 0]  # HIP would count what ROCR left
    both = start(box, job_plan, {"ROCR_VISIBLE_DEVICES": "2,0"})
    assert both.status == 78
    assert "ROCR_VISIBLE_DEVICES=2,0 is set, and chooses devices too, beside HIP_VISIBLE_DEVICES" in both.message


def test_row_16_amds_exposing_variable_is_sorted(box: Box) -> None:
    job_plan = plan({"type": "rocm", "devices": [2, 0], "allocation": "host"})
    assert job_plan.devices.exposure_env == {"AMD_VISIBLE_DEVICES": "0,2"}
    kfd(box, (0, "0"), (128, "1"), (130, "3"))  # the host's 0 and 2
    drm(box, *amd((128, "1a"), (130, "86")))
    assert hip(start(box, job_plan).env, 2) == [1, 0]


def test_row_17_ascends_mask_takes_ascending_numbers_alone(box: Box) -> None:
    for number in range(3):
        box.write(f"dev/davinci{number}", "")
    assert refused({"type": "npu", "devices": [2, 0]}) == ["spec.accelerator.devices"]
    assert box.start(expect={"accelerator": "npu", "devices": [2, 0]}).status == 78
    assert start(box, plan({"type": "npu", "devices": [0, 2]})).env["ASCEND_RT_VISIBLE_DEVICES"] == "0,2"


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

"""Each launcher with each selection, by real torchrun, accelerate and deepspeed: processes, masks, words, threads."""

from __future__ import annotations

from typing import Any

import pytest

from launchers.starting import ADDS, WORDS, assert_one_group, by_uuid, job, ranks, run

pytestmark = pytest.mark.torch

CUDA: dict[str, tuple[dict[str, Any], tuple[int, ...]]] = {  # what the file asks for: the devices' numbers, in order
    "count": ({"count": 2}, (0, 1)),
    "subset": ({"devices": [0, 2]}, (0, 2)),
    "order": ({"devices": [2, 0]}, (2, 0)),
}


@pytest.mark.parametrize("launcher", ["torchrun", "accelerate"])
@pytest.mark.parametrize("selection", CUDA)
def test_the_ranks_see_the_files_devices_in_its_order(env: dict[str, str], launcher: str, selection: str) -> None:
    accelerator, numbers = CUDA[selection]
    seen = ranks(run(job(ADDS, "torch", *WORDS, launcher=launcher, accelerator={"type": "cuda", **accelerator}), env))
    assert len(seen) == len(numbers)
    assert {rank["env"]["CUDA_DEVICE_ORDER"] for rank in seen} == {"PCI_BUS_ID"}
    assert_one_group(seen, by_uuid(*numbers))


def test_accelerate_with_one_device_starts_the_program_itself(env: dict[str, str]) -> None:
    (seen,) = ranks(
        run(job(ADDS, "torch", *WORDS, launcher="accelerate", accelerator={"type": "cuda", "devices": [1]}), env)
    )
    assert (seen["env"]["RANK"], seen["env"]["CUDA_VISIBLE_DEVICES"], seen["devices"]) == (None, by_uuid(1), 1)
    assert seen["words"] == list(WORDS)


def test_one_process_has_several_devices_for_data_parallel(env: dict[str, str]) -> None:
    """torch.nn.DataParallel takes all that torch counts, the first as its output's: the file's first."""
    accelerator = {"type": "cuda", "devices": [2, 0]}
    (seen,) = ranks(run(job(ADDS, "torch", *WORDS, launcher="python", accelerator=accelerator), env))
    assert (seen["env"]["RANK"], seen["env"]["WORLD_SIZE"], seen["devices"]) == (None, None, 2)
    assert seen["env"]["CUDA_VISIBLE_DEVICES"] == by_uuid(2, 0)
    assert seen["words"] == list(WORDS)


@pytest.mark.parametrize(("asked", "processes"), [({"type": "cpu"}, 1), ({"type": "cuda", "devices": []}, 2)])
def test_torchrun_on_cpus(env: dict[str, str], asked: dict[str, Any], processes: int) -> None:
    """Though the machine has GPUs, of which torch counts none."""
    text = job(ADDS, "torch", *WORDS, launcher="torchrun", processesPerNode=processes, accelerator=asked)
    seen = ranks(run(text, env))
    assert len(seen) == processes
    assert {rank["env"]["HIP_VISIBLE_DEVICES"] for rank in seen} == {"-1"}
    assert_one_group(seen, "")


@pytest.mark.parametrize("processes", [1, 2])
def test_accelerate_on_cpus_finds_the_group_and_its_precision(env: dict[str, str], processes: int) -> None:
    text = job(
        ADDS, "accelerate", *WORDS, launcher="accelerate", processesPerNode=processes, accelerator={"type": "cpu"}
    )
    seen = ranks(run(text, env))
    assert len(seen) == processes
    assert {rank["dtype"] for rank in seen} == {"bf16"}
    assert {rank["device"] for rank in seen} <= {"cpu", "cpu:0"}
    assert_one_group(seen, "")


@pytest.mark.parametrize(
    ("accelerator", "mask"), [({"type": "cpu"}, ""), ({"type": "cuda", "devices": [2, 0]}, by_uuid(2, 0))]
)
def test_deepspeeds_engine_steps_with_the_gradients_of_both(
    env: dict[str, str], accelerator: dict[str, Any], mask: str
) -> None:
    """It computes on the CPU both times: no fake GPU computes."""
    by_cpu = [{"name": "DS_ACCELERATOR", "value": "cpu"}]
    text = job(ADDS, "deepspeed", *WORDS, launcher="deepspeed", processesPerNode=2, accelerator=accelerator, env=by_cpu)
    seen = ranks(run(text, env))
    assert [rank["weight"] for rank in seen] == pytest.approx([0.625, 0.625])  # 1 - (0.25 + 0.5) / 2
    assert_one_group(seen, mask)

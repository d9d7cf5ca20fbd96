"""The real `deepspeed` program, with lines that people have: why k8sel starts its jobs through torchrun."""

from __future__ import annotations

import pytest

from launchers.starting import SHOW, by_uuid, k8sel, ranks, run, start

pytestmark = pytest.mark.torch

# A line, and the numbers of the devices that its processes get.
LINES = {
    "deepspeed --include localhost:2,0": (0, 2),
    "CUDA_VISIBLE_DEVICES=3,1 deepspeed --num_gpus 2": (0, 1),
}


@pytest.mark.parametrize("line", LINES)
def test_deepspeeds_own_launcher_loses_the_order(env: dict[str, str], line: str) -> None:
    """It sorts, and drops the mask beside a number; the line's job file has the devices that were really used."""
    by_line = ranks(start(["bash", "-c", f"{line} {SHOW} --bf16"], env))
    assert {rank["env"]["CUDA_VISIBLE_DEVICES"] for rank in by_line} == {",".join(map(str, LINES[line]))}
    assert [rank["words"] for rank in by_line] == [["--local_rank=0", "--bf16"], ["--local_rank=1", "--bf16"]]

    written = k8sel(f"{line} {SHOW} --bf16", env, "from", "-q")
    by_file = ranks(run(written.stdout, env))
    assert [rank["env"]["LOCAL_RANK"] for rank in by_file] == ["0", "1"]
    assert {rank["env"]["CUDA_VISIBLE_DEVICES"] for rank in by_file} == {by_uuid(*LINES[line])}
    assert [rank["words"] for rank in by_file] == [["--bf16"], ["--bf16"]]


def test_deepspeeds_own_launcher_fails_on_uuids(env: dict[str, str]) -> None:
    """They are what k8sel's masks consist of, wherever the driver tells them."""
    done = start(["bash", "-c", f"CUDA_VISIBLE_DEVICES={by_uuid(2, 0)} deepspeed {SHOW}"], env)
    assert (done.returncode, done.stdout.count("shown")) == (1, 0)
    assert "ValueError: invalid literal for int()" in done.stderr

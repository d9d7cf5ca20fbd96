"""docs/isolation.md's programs, as they stand there: by real torchrun and torch, under `k8sel run`, on fake GPUs."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from entrypoint import rooted
from entrypoint.machines import Box, uuid
from planning.jobs import plan

PAGE = (Path(__file__).parents[2] / "docs" / "isolation.md").read_text(encoding="utf-8")
ONE_DEVICE, SEVERAL = re.findall(r"<!-- tested -->\n```python\n(.*?)```", PAGE, re.DOTALL)
SHOWN = re.findall(r"^```\n((?:isolation|local rank).*?)^```", PAGE, re.DOTALL | re.MULTILINE)
MASK = "import os\nprint('mask', os.environ['LOCAL_RANK'], os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\n"


@pytest.fixture
def machine(tmp_path: Path, fake_nvml: Path) -> Box:
    """Four GPUs whose PCI order is minors 7, 6, 5, 4; torch counts them by the same library as the entrypoint."""
    box = Box(tmp_path / "box", tmp_path)
    box.nodes(4, 5, 6, 7)
    box.library(fake_nvml)
    return box


def ran(program: str, accelerator: dict[str, Any], machine: Box, torch_env: dict[str, str]) -> list[str]:
    """Returns the output of two processes, in the order of their ranks."""
    script = machine.root / "train.py"
    script.write_text(program + MASK, encoding="utf-8")
    spec = {
        "command": ["python", str(script)],
        "launcher": "torchrun",
        "processesPerNode": 2,
        "accelerator": {"type": "cuda", **accelerator},
    }
    file = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": "job"}, "spec": spec}
    own = {
        "FAKE_NVML_DEV": str(machine.root / "dev"),
        "LD_LIBRARY_PATH": str(machine.root / "lib"),
    }
    done = subprocess.run(
        [sys.executable, *rooted.K8SEL, "run", "-q", "-"],
        input=json.dumps(file),
        env={**rooted.environ(machine.root, torch_env), **own},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return sorted(done.stdout.splitlines())


def devices(printed: list[str]) -> list[list[str]]:
    """Each rank's mask."""
    return [line.split()[2].split(",") for line in printed if line.startswith("mask ")]


@pytest.mark.torch
def test_one_program_for_both(machine: Box, torch_env: dict[str, str]) -> None:
    """And both ways each rank computes on the same device."""
    found = {}
    for isolation in ("node", "process"):
        printed = ran(ONE_DEVICE, {"devices": [2, 0], "isolation": isolation}, machine, torch_env)
        found[isolation] = [line for line in printed if line.startswith("local rank")]
        indices = [int(line.split("cuda:")[1].split()[0]) for line in found[isolation]]
        chosen = [mask[index] for mask, index in zip(devices(printed), indices, strict=True)]
        assert chosen == [uuid(5), uuid(7)]
    both = [f"isolation: {name}\n" + "\n".join(lines) + "\n" for name, lines in found.items()]
    assert "".join(both) == SHOWN[0]


@pytest.mark.torch
def test_a_share_of_several(machine: Box, torch_env: dict[str, str]) -> None:
    printed = ran(SEVERAL, {"devices": [3, 1, 0, 2], "isolation": "process"}, machine, torch_env)
    assert devices(printed) == [[uuid(4), uuid(6)], [uuid(7), uuid(5)]]
    assert "".join(f"{line}\n" for line in printed if line.startswith("local rank")) == SHOWN[1]


@pytest.mark.parametrize("isolation", ["node", "process"])
@pytest.mark.parametrize(("number", "processes"), [(1, 1), (2, 1), (2, 2), (4, 2), (6, 2), (6, 3), (8, 4), (8, 8)])
def test_the_remainder_is_the_plans_own_device(isolation: str, number: int, processes: int) -> None:
    """And no two processes take the same one."""
    accelerator = {"type": "cuda", "devices": list(range(number))[::-1], "isolation": isolation}
    (node,) = plan(accelerator, processesPerNode=processes).nodes
    taken = [rank.devices[rank.local_rank % len(rank.devices)] for rank in node.ranks]
    assert len(set(taken)) == processes
    if isolation == "node" or number == processes:
        assert taken == [rank.device for rank in node.ranks]

"""Tests the traps of real launchers, and that k8sel's command lines avoid them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from launchers.pods import operators, pods
from launchers.starting import ON_TWO_CPUS, SHOW, TOLD, job, ranks, start

pytestmark = pytest.mark.torch


def told(words: list[str], env: dict[str, str]) -> dict[str, str]:
    """Returns the settings with which `accelerate launch` and these words would start torch's agent."""
    done = start(["python3", TOLD, *words], env)
    assert done.returncode == 0, done.stderr
    numbers: dict[str, object] = json.loads(done.stdout.partition("told ")[2])
    return {name: str(number) for name, number in numbers.items()}


# A file of defaults that an image may have, of another machine.
DEFAULTS = """
compute_environment: LOCAL_MACHINE
distributed_type: MULTI_GPU
gpu_ids: "3"
machine_rank: 7
main_process_ip: 10.0.0.1
main_process_port: 1234
num_machines: 8
num_processes: 64
rdzv_backend: c10d
same_network: false
"""


def test_accelerate_takes_no_number_from_the_operator_or_a_file(env: dict[str, str], tmp_path: Path) -> None:
    text = job(SHOW, launcher="accelerate", accelerator={"type": "cuda", "count": 2}, nodes=2)
    _, (command, variables) = pods(text, env)
    words = command[command.index("launch") + 1 :]
    defaults = tmp_path / "defaults.yaml"
    defaults.write_text(DEFAULTS)

    group = {
        "nnodes": "2",
        "node_rank": "1",
        "nproc_per_node": "2",
        "master_addr": "127.0.0.1",
        "master_port": variables["PET_MASTER_PORT"],
        "rdzv_backend": "static",
        "rdzv_endpoint": "",
    }
    said = told(["--config_file", str(defaults), *words], variables)
    assert said == group


def test_accelerate_by_itself_takes_the_operators_numbers(env: dict[str, str]) -> None:
    """Two processes of one machine are asked for: it would start two on each of two."""
    said = told(["--multi_gpu", "--num_processes", "2", SHOW], {**env, **operators(1, 2, "2", "23456")})
    assert (said["nnodes"], said["nproc_per_node"], said["node_rank"]) == ("2", "2", "1")


def test_torchrun_crashes_on_the_operators_empty_standalone(installed: dict[str, str]) -> None:
    """Of `elasticPolicy: {standalone: true}`, which k8sel never writes."""
    done = start(["torchrun", SHOW], {**installed, "PET_STANDALONE": ""})
    assert (done.returncode, done.stdout) == (1, "")
    assert "ValueError: invalid literal for int() with base 10: ''" in done.stderr


def test_torchrun_counts_cpus_where_the_operator_says_auto(installed: dict[str, str]) -> None:
    """Its default, where a job does not say otherwise; k8sel's line has the number, which counts more."""
    env = {**installed, **operators(0, 1, "1", "0"), "PET_NPROC_PER_NODE": "auto"}
    by_itself = ranks(start([*ON_TWO_CPUS, "torchrun", SHOW], env))
    assert [rank["env"]["WORLD_SIZE"] for rank in by_itself] == ["2", "2"]

    ((command, variables),) = pods(job(SHOW, launcher="torchrun", accelerator={"type": "cpu"}), env)
    by_file = ranks(start([*ON_TWO_CPUS, *command], {**variables, "PET_NPROC_PER_NODE": "auto"}))
    assert [rank["env"]["WORLD_SIZE"] for rank in by_file] == ["1"]


def test_accelerate_starts_one_process_on_cpus(installed: dict[str, str], tmp_path: Path) -> None:
    """However many are asked for; k8sel starts them through torchrun."""
    line = ["accelerate", "launch", "--cpu", "--num_processes", "2", SHOW]
    assert len(ranks(start(line, {**installed, "HF_HOME": str(tmp_path)}))) == 1

"""Tests the lines of `k8sel plan` beside the table of ranks: the backend and the binding."""

from __future__ import annotations

import json
from typing import Any

import pytest

from k8sel.cli.show import plan as show
from planning.jobs import plan

CPU = {"type": "cpu"}


@pytest.mark.parametrize(
    ("spec", "lines"),
    [
        ({"launcher": "torchrun"}, []),
        ({"launcher": "mpirun"}, []),
        ({"launcher": "torchrun", "backend": "gloo"}, ["backend: gloo"]),
        (
            {"launcher": "torchrun", "command": ["python", "a.py", "--ddp_backend", "ccl"]},
            ["backend: ccl, by oneCCL: CCL_ATL_TRANSPORT=ofi CCL_PROCESS_LAUNCHER=torchrun CCL_WORKER_COUNT=1"],
        ),
        (
            {"launcher": "mpirun", "mpi": {"implementation": "Intel", "binding": "numa"}, "backend": "mpi"},
            ["backend: mpi", "binding: each process to a NUMA node, in turn"],
        ),
        (
            {"launcher": "mpirun", "mpi": {"binding": "none"}},
            ["binding: no process is bound to a part of the machine"],
        ),
    ],
)
def test_the_plan_says_how_processes_reach_each_other(spec: dict[str, Any], lines: list[str]) -> None:
    assert list(show.communication(plan(CPU, **spec))) == lines


@pytest.mark.parametrize(
    ("value", "said"),
    [({"value": "none"}, "none"), ({"value": "a b"}, "'a b'"), ({"valueFrom": {"fieldRef": {}}}, "'(valueFrom)'")],
)
def test_oneccls_variables_are_shown_as_the_processes_get_them(value: dict[str, Any], said: str) -> None:
    env = [{"name": "CCL_PROCESS_LAUNCHER", **value}]
    (line,) = show.communication(plan(CPU, launcher="python", backend="ccl", env=env))

    assert f" CCL_PROCESS_LAUNCHER={said} " in line


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({}, "from the node's cores"),
        ({"backend": "ccl"}, "from the node's cores, less 1 of oneCCL"),
        ({"backend": "ccl", "ccl": {"workers": 4}}, "from the node's cores, less 4 of oneCCL"),
        ({"backend": "ccl", "cpu": {"threadsPerProcess": 23}}, "23"),
    ],
)
def test_threads_are_counted_where_they_run_unless_they_are_given(spec: dict[str, Any], said: str) -> None:
    assert show.threads(plan(CPU, **spec)) == said


def test_the_json_says_it_too() -> None:
    mpi = {"implementation": "MPICH", "binding": "socket"}
    said = json.loads(show.plan_json(plan(CPU, launcher="mpirun", backend="ccl", mpi=mpi)))

    assert (said["expectation"]["backend"], said["expectation"]["mpi"]) == ("ccl", "MPICH")
    assert said["mpi"]["binding"] == "socket"
    assert said["oneccl"] == ["CCL_ATL_TRANSPORT", "CCL_PROCESS_LAUNCHER", "CCL_WORKER_COUNT"]


def test_the_jsons_keys_are_camel_case() -> None:
    said = json.loads(show.plan_json(plan({"type": "cuda", "devices": [1]}, launcher="mpirun", nodes=2)))
    node = said["nodes"][0]

    assert set(said) == {
        "activeDeadlineSeconds", "annotations", "backoffLimit", "cleanPodPolicy", "command", "container", "devices",
        "entrypointMode", "env", "expectation", "gang", "image", "labels", "launch", "launcher", "maxRestarts", "mpi",
        "name", "namespace", "nodes", "oneccl", "pod", "priorityClassName", "processesPerNode", "queue",
        "schedulerName", "sharedMemory", "target", "ttlSecondsAfterFinished", "warnings",
    }  # fmt: skip
    assert set(node) == {"name", "nodeRank", "ranks"}
    assert set(node["ranks"][0]) == {"device", "devices", "localRank", "rank"}
    assert set(said["devices"]) == {
        "count", "exposed", "exposureEnv", "hideEnv", "maskEnv", "memory", "memoryLabel", "positions", "product",
        "productLabel", "resourceName", "tolerations", "type",
    }  # fmt: skip
    assert set(said["mpi"]) == {
        "binding", "implementation", "launcherContainer", "launcherPod", "slotsPerWorker", "sshAuthMountPath",
        "sshPort", "sshd",
    }  # fmt: skip


def test_names_that_the_user_chose_stay_in_the_json() -> None:
    file: dict[str, Any] = {"env": [{"name": "MY_DATA", "value": "a_b"}], "nodeSelector": {"my_label": "a_b"}}
    said = json.loads(show.plan_json(plan({"type": "cuda", "devices": [1]}, **file)))

    assert {"name": "MY_DATA", "value": "a_b"} in said["env"]
    assert said["pod"]["nodeSelector"]["my_label"] == "a_b"
    assert said["devices"]["maskEnv"]["CUDA_VISIBLE_DEVICES"] == "1"


def test_a_value_that_looks_like_a_secret_is_not_in_the_json() -> None:
    env = [{"name": "HF_TOKEN", "value": "hf_abcdefghijklmnop"}, {"name": "LR", "value": "0.1"}]
    text = show.plan_json(plan({"type": "cuda"}, env=env))
    assert "hf_abcdefghijklmnop" not in text
    assert {"name": "HF_TOKEN", "value": "(hidden: it looks like a secret)"} in json.loads(text)["env"]
    assert {"name": "LR", "value": "0.1"} in json.loads(text)["env"]


@pytest.mark.parametrize(("nodes", "rows"), [(8, 64), (128, 25)])
def test_a_long_table_has_its_first_and_its_last_processes(
    nodes: int, rows: int, capsys: pytest.CaptureFixture[str]
) -> None:
    show.plan(plan({"type": "cuda", "count": 8}, nodes=nodes), "table")
    lines = capsys.readouterr().out.splitlines()
    table = lines[2 : 2 + rows]
    assert table[-1].split()[:3] == [f"job-worker-{nodes - 2}", str(8 * nodes - 1), "7"]
    assert ("..." in table[16]) == (nodes == 128)
    assert ("24 of 1024 processes are shown: `k8sel plan -o json` has all" in lines) == (nodes == 128)

"""A job without devices: hidden from every vendor, given its threads, and welcome where "restricted" is enforced."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cluster.client import Cluster
from e2e.jobs import apply_and_follow, apply_and_wait, job, trained
from e2e.test_arrives import shown
from e2e.test_mpis import CORES

pytestmark = pytest.mark.cluster

LAUNCHED = Path(__file__).parents[1] / "launchers" / "programs"
# In a "restricted" namespace there is no hostPath, so the program stands in the command.
SAY = "import glob, json, os; print('saw', json.dumps([dict(os.environ), glob.glob('/dev/nvidia*')]))"
RESTRICTED: dict[str, Any] = {
    "launcher": "python",
    "accelerator": {"type": "cpu"},
    "command": ["python3", "-c", SAY],
    "volumes": [],
    "volumeMounts": [],
    "resources": {"cpu": "1", "memory": "256Mi"},
    "podSecurityContext": {"runAsNonRoot": True, "runAsUser": 1000},
}


def test_it_sees_no_device_and_gets_its_threads(cluster: Cluster, namespace: str) -> None:
    spec = {
        "launcher": "torchrun",
        "processesPerNode": 2,
        "accelerator": {"type": "cpu"},
        "cpu": {"threadsPerProcess": 3},
    }
    applied = apply_and_wait(cluster, namespace, job("threads", cluster, **spec))
    assert applied.returncode == 0, applied.stderr
    ranks = trained(cluster.k8sel("logs", "threads", "-n", namespace).stdout)
    assert [(rank.rank, rank.threads, rank.mask, rank.nodes) for rank in ranks] == [(0, "3", "", []), (1, "3", "", [])]


@pytest.mark.parametrize("library", ["torch", "accelerate", "deepspeed"])
def test_each_library_adds_up_over_two_nodes_with_the_threads_that_were_counted(
    cluster: Cluster, namespace: str, accelerate: Path, deepspeed: Path, library: str
) -> None:
    folders = {"programs": LAUNCHED, "accelerate": accelerate, "deepspeed": deepspeed}
    spec = {
        "launcher": {"torch": "torchrun"}.get(library, library),
        "nodes": 2,
        "accelerator": {"type": "cpu"},
        "command": ["python3", "/programs/adds.py", library],
        "env": [
            {"name": "PYTHONPATH", "value": "/accelerate:/deepspeed"},
            {"name": "PATH", "value": "/accelerate/bin:/deepspeed/bin:/usr/local/bin:/usr/bin:/bin"},
            {"name": "CCL_WORKER_COUNT", "value": "1"},
        ],
        "volumes": [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()],
        "volumeMounts": [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in folders],
    }
    ended, log = apply_and_follow(cluster, namespace, job("adds", cluster, **spec))
    assert ended.returncode == 0, ended.stderr + log
    ranks = shown(log)
    assert [(rank["env"]["RANK"], rank["env"]["WORLD_SIZE"]) for rank in ranks] == [("0", "2"), ("1", "2")]
    assert [rank["sum"] for rank in ranks] == [2.0, 2.0]
    assert {rank["threads"] for rank in ranks} == {max(1, len(CORES) - 1)}


def test_it_runs_where_restricted_is_enforced(cluster: Cluster) -> None:
    with cluster.namespace(**{"pod-security.kubernetes.io/enforce": "restricted"}) as namespace:
        applied = apply_and_wait(cluster, namespace, job("safe", cluster, **RESTRICTED))
        assert (applied.returncode, applied.stderr) == (0, "")
        log = cluster.k8sel("logs", "safe", "-n", namespace).stdout
    env, nodes = json.loads(next(line for line in log.splitlines() if " saw " in f" {line}").split("saw ", 1)[1])
    runtimes = {"NVIDIA_VISIBLE_DEVICES": "void", "ASCEND_VISIBLE_DEVICES": "void"}
    assert env.items() >= {**runtimes, "CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1"}.items()
    assert nodes == []
    assert env["OMP_NUM_THREADS"] == "1"  # from the CPU limit, not from the machine


def test_several_nodes_are_refused_there_before_anything_is_made(cluster: Cluster) -> None:
    file = job("safe", cluster, **RESTRICTED, nodes=2)
    with cluster.namespace(**{"pod-security.kubernetes.io/enforce": "restricted"}) as namespace:
        applied = cluster.k8sel("apply", "-q", "-n", namespace, "-", input=file, check=False)
        validated = cluster.k8sel("validate", "--namespace-policy", "restricted", "-", input=file, check=False)
        made = cluster.get("pytorchjobs,configmaps", "-n", namespace)["items"]
    assert (applied.returncode, validated.returncode) == (2, 2)
    assert "init container" in validated.stderr
    assert validated.stderr == applied.stderr
    assert [each["metadata"]["name"] for each in made] == ["kube-root-ca.crt"]

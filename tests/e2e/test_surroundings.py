"""Tests a job's other requirements on a real node: memory of its cards, and /dev/shm."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.client import Cluster, await_
from e2e.jobs import apply_and_wait, job

pytestmark = pytest.mark.cluster

LABEL = "nvidia.com/gpu.memory"  # in MiB
NOTHING: dict[str, Any] = {"command": ["python3", "-c", "pass"], "launcher": "python"}


@pytest.mark.usefixtures("gpus", "alone")
def test_a_cards_memory_picks_the_node_and_is_compared_there(cluster: Cluster, namespace: str) -> None:
    (node,) = cluster.get("nodes")["items"]
    name = node["metadata"]["name"]

    def ask(job_name: str, memory: str) -> str:
        return job(job_name, cluster, **NOTHING, accelerator={"type": "cuda", "count": 1, "memory": memory})

    cluster.kubectl("label", "node", name, "--overwrite", f"{LABEL}=81920")
    try:
        fits = apply_and_wait(cluster, namespace, ask("fits", "79.5Gi"), timeout=60)
        assert fits.returncode == 0, fits.stderr
        cluster.k8sel("apply", "-q", "-n", namespace, "-", input=ask("waits", "96Gi"))
        await_(lambda: "node affinity" in cluster.k8sel("status", "waits", "-n", namespace).stdout, what="no such node")
        cluster.k8sel("delete", "waits", "-n", namespace)

        cluster.kubectl("label", "node", name, "--overwrite", f"{LABEL}=131072")  # a label that says too much
        wrong = apply_and_wait(cluster, namespace, ask("wrong", "96Gi"), timeout=60)
    finally:
        cluster.kubectl("label", "node", name, f"{LABEL}-")
    assert wrong.returncode == 1
    assert "memory of 96Gi or more expected on each device, 80Gi on device 0 found by NVML" in wrong.stderr


def test_a_pods_shared_memory_is_what_was_asked_for(cluster: Cluster, namespace: str) -> None:
    applied = apply_and_wait(
        cluster,
        namespace,
        job("held", cluster, **NOTHING, accelerator={"type": "cpu"}, sharedMemory="96Mi"),
        timeout=60,
    )
    log = cluster.k8sel("logs", "--no-follow", "held", "-n", namespace).stdout
    assert applied.returncode == 0, applied.stderr + log
    assert "/dev/shm" not in log
    assert '"notChecked":[]' in log


def test_several_processes_with_the_runtimes_own_shared_memory(cluster: Cluster, namespace: str) -> None:
    spec = {"command": ["python3", "-c", "pass"], "launcher": "mpirun", "processesPerNode": 2}
    applied = apply_and_wait(cluster, namespace, job("little", cluster, **spec, accelerator={"type": "cpu"}))
    log = cluster.k8sel("logs", "--no-follow", "little", "-n", namespace).stdout
    assert applied.returncode == 0, applied.stderr + log
    (answer,) = [line for line in log.splitlines() if "node little-worker-0: ok: " in line]
    assert "; /dev/shm has 64Mi for 2 processes" in answer
    assert sum("note: /dev/shm has 64Mi" in line for line in log.splitlines()) == 1  # by the first rank alone

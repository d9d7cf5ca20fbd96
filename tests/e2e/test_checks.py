"""Tests the check in a pod whose GPUs are another product than the node's label."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from cluster.client import Cluster
from e2e.jobs import apply_and_wait, checked_out, job, terminated
from e2e.test_arrives import shown

pytestmark = pytest.mark.cluster

LABEL = "nvidia.com/gpu.product"
SPEC: dict[str, Any] = {
    "command": ["python3", "/programs/show.py"],
    "launcher": "python",
    "env": [{"name": "FAKE_NVML_NAMES", "value": ",".join(["NVIDIA A100-SXM4-80GB"] * 8)}],
}
WANTED: dict[str, Any] = {"type": "cuda", "count": 1, "product": ["NVIDIA-H100-80GB-HBM3"]}
MESSAGE = "product NVIDIA-H100-80GB-HBM3 expected, NVIDIA-A100-SXM4-80GB found"


@pytest.fixture
def labelled(cluster: Cluster, gpus: None) -> Iterator[None]:
    """The node's label names the wanted product."""
    (node,) = cluster.get("nodes")["items"]
    name = node["metadata"]["name"]
    cluster.kubectl("label", "node", name, "--overwrite", f"{LABEL}={WANTED['product'][0]}")
    yield
    cluster.kubectl("label", "node", name, f"{LABEL}-")


@pytest.mark.usefixtures("labelled")
def test_a_wrong_product_ends_the_job_and_is_not_tried_again(cluster: Cluster, namespace: str) -> None:
    spec = {**SPEC, "accelerator": WANTED, "policy": {"backoffLimit": 3}}
    applied = apply_and_wait(cluster, namespace, job("other", cluster, **spec), timeout=60)
    assert applied.returncode == 1
    (pod,) = checked_out(cluster, namespace)
    assert MESSAGE in terminated(pod)["message"]
    assert MESSAGE in applied.stderr
    assert [each["metadata"]["uid"] for each in cluster.get("pods", "-n", namespace)["items"]] == [
        pod["metadata"]["uid"]
    ]


@pytest.mark.usefixtures("labelled")
def test_a_warning_goes_on(cluster: Cluster, namespace: str) -> None:
    spec = {**SPEC, "accelerator": WANTED, "entrypoint": {"check": "warn"}}
    applied = apply_and_wait(cluster, namespace, job("warned", cluster, **spec), timeout=60)
    log = cluster.k8sel("logs", "--no-follow", "warned", "-n", namespace).stdout
    assert applied.returncode == 0, applied.stderr + log
    assert MESSAGE in log
    assert [rank["env"]["WORLD_SIZE"] for rank in shown(log)] == ["1"]


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("launcher", ["python", "mpirun"])
def test_without_the_entrypoint_the_mask_is_by_position(cluster: Cluster, namespace: str, launcher: str) -> None:
    accelerator = {"type": "cuda", "devices": [1, 0]}
    command = ["python3", "-c", "import os; print('mask', os.environ['CUDA_VISIBLE_DEVICES'])"]
    spec = {"launcher": launcher, "processesPerNode": 1, "command": command, "entrypoint": {"mode": "none"}}
    applied = apply_and_wait(cluster, namespace, job("bare", cluster, **spec, accelerator=accelerator), timeout=60)
    log = cluster.k8sel("logs", "--no-follow", "bare", "-n", namespace).stdout
    assert applied.returncode == 0, applied.stderr + log
    assert "mask 1,0\n" in log

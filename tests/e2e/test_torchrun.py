"""A PyTorchJob by torchrun, on a real cluster with fake GPUs: the ranks' masks, and a device that is missing."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.client import Cluster, await_
from e2e.jobs import apply_and_follow, apply_and_wait, assert_ordered, checked_out, job, own_device, terminated, trained

pytestmark = pytest.mark.cluster

DEVICES: dict[str, Any] = {"launcher": "torchrun", "nodes": 2}


def ordered(count: int) -> dict[str, Any]:
    return {**DEVICES, "accelerator": {"type": "cuda", "count": count, "devices": [2, 0]}}


@pytest.mark.usefixtures("gpus")
def test_every_rank_sees_its_devices_in_the_files_order(cluster: Cluster, namespace: str) -> None:
    file = job("ordered", cluster, **ordered(3))
    ended, log = apply_and_follow(cluster, namespace, file)
    assert (ended.returncode, ended.stderr) == (0, "")
    ranks = trained(log)
    assert_ordered(ranks, ("ordered-master-0", "ordered-worker-0"))

    shown = cluster.k8sel("receipt", "-", input=log)
    assert shown.stderr == ""
    rows = [line.split()[:4] for line in shown.stdout.splitlines()[1:]]
    assert rows == [[rank.host, str(rank.rank), str(rank.local_rank), own_device(rank)] for rank in ranks]


@pytest.mark.usefixtures("gpus")
def test_a_missing_device_stops_the_job_before_training(cluster: Cluster, namespace: str) -> None:
    with cluster.broken("next"):
        applied = apply_and_wait(cluster, namespace, job("short", cluster, **ordered(3)), timeout=60)
    assert applied.returncode == 1
    assert "3 cuda devices expected, 2 found" in applied.stderr

    (pod,) = checked_out(cluster, namespace)
    name, message = pod["metadata"]["name"], terminated(pod)["message"].strip()
    assert message.startswith(f"k8sel: node {name}: 3 cuda devices expected, 2 found (0000:")
    assert pod["status"]["containerStatuses"][0]["restartCount"] == 0
    assert message.splitlines()[0] in cluster.k8sel("status", "short", "-n", namespace).stdout
    assert message.splitlines()[0] in cluster.kubectl("describe", "pod", name, "-n", namespace).stdout
    assert "trained" not in cluster.k8sel("logs", "--no-follow", "short", "-n", namespace).stdout
    await_(lambda: cluster.gpus_in_use() == 0, what="the good node's devices, free again")


def test_applying_twice_changes_nothing(cluster: Cluster, namespace: str) -> None:
    file = job("twice", cluster, **ordered(3), scheduling={"queue": "nowhere"})  # suspended: it only has to be there
    first = cluster.k8sel("apply", "-q", "-n", namespace, "-", input=file).stdout
    before = cluster.get("pytorchjob", "twice", "-n", namespace)["metadata"]
    second = cluster.k8sel("apply", "-q", "-n", namespace, "-", input=file).stdout
    after = cluster.get("pytorchjob", "twice", "-n", namespace)["metadata"]
    assert [line.split()[-1] for line in first.splitlines()] == ["created", "created"]
    assert [line.split()[-1] for line in second.splitlines()] == ["unchanged", "unchanged"]
    assert (before["resourceVersion"], before["generation"]) == (after["resourceVersion"], after["generation"])


def test_the_entrypoints_configmap_goes_with_its_job(cluster: Cluster, namespace: str) -> None:
    file = job("gone", cluster, **ordered(3), scheduling={"queue": "nowhere"})
    cluster.k8sel("apply", "-q", "-n", namespace, "-", input=file)
    owners = [each["metadata"].get("ownerReferences") for each in configmaps(cluster, namespace)]
    assert [[owner["kind"] for owner in each] for each in owners] == [["PyTorchJob"]]
    cluster.kubectl("delete", "pytorchjob", "gone", "-n", namespace)
    await_(lambda: not configmaps(cluster, namespace), what="end of the ConfigMap")


def configmaps(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = cluster.get("configmap", "-n", namespace, "-l", "k8sel.dev/job")["items"]
    return found


def test_an_image_without_python_is_named(cluster: Cluster, namespace: str) -> None:
    file = job("bare", cluster, launcher="python", accelerator={"type": "cpu"}, image=cluster.images.nopython)
    applied = apply_and_wait(cluster, namespace, file, timeout=60)
    assert applied.returncode == 1
    assert "no python3" in applied.stderr
    assert len(checked_out(cluster, namespace)) == 1

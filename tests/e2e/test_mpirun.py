"""An MPIJob by Open MPI, on a real cluster with fake GPUs: each rank on its own worker, and a device missing."""

from __future__ import annotations

from typing import Any

import pytest

from cluster.client import Cluster, await_
from e2e.jobs import apply_and_wait, assert_ordered, checked_out, job, own_device, terminated, trained

pytestmark = pytest.mark.cluster

ORDERED: dict[str, Any] = {
    "launcher": "mpirun",
    "nodes": 2,
    "accelerator": {"type": "cuda", "count": 3, "devices": [2, 0]},
}
USERS = {"root": {}, "mpiuser": {"podSecurityContext": {"runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": True}}}


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize("user", USERS)
def test_every_rank_sees_its_devices_in_the_files_order(cluster: Cluster, namespace: str, user: str) -> None:
    applied = apply_and_wait(cluster, namespace, job("ordered", cluster, **ORDERED, **USERS[user]))
    log = cluster.k8sel("logs", "--no-follow", "ordered", "-n", namespace).stdout
    assert applied.returncode == 0, applied.stderr + log

    ranks = trained(log)
    assert_ordered(ranks, ("ordered-worker-0", "ordered-worker-1"))

    shown = cluster.k8sel("receipt", "ordered", "-n", namespace)
    assert shown.stderr == ""
    rows = [line.split()[:4] for line in shown.stdout.splitlines()[1:]]
    assert rows == [[rank.host, str(rank.rank), str(rank.local_rank), own_device(rank)] for rank in ranks]
    same = cluster.k8sel("receipt", "diff", "ordered", "-", "-n", namespace, input=log)
    assert same.stdout == "no difference: 4 processes on 2 nodes\n"


@pytest.mark.usefixtures("gpus")
def test_a_missing_device_stops_the_job_before_training(cluster: Cluster, namespace: str) -> None:
    with cluster.broken("next"):
        applied = apply_and_wait(cluster, namespace, job("short", cluster, **ORDERED), timeout=90)
    assert applied.returncode == 1
    assert "3 cuda devices expected, 2 found" in applied.stderr

    (launcher,) = checked_out(cluster, namespace)
    name, message = launcher["metadata"]["name"], terminated(launcher)["message"].strip()
    assert name.startswith("short-launcher")
    assert message.startswith("k8sel: node short-worker-")
    assert launcher["status"]["containerStatuses"][0]["restartCount"] == 0
    first_line = message.splitlines()[0]
    assert first_line in cluster.k8sel("status", "short", "-n", namespace).stdout
    assert first_line in cluster.kubectl("describe", "pod", name, "-n", namespace).stdout
    assert "trained" not in cluster.k8sel("logs", "--no-follow", "short", "-n", namespace).stdout
    await_(lambda: cluster.gpus_in_use() == 0, what="the workers' devices, free again")

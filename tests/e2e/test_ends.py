"""Tests the ends of jobs: retries, and the signals before a pod is deleted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cluster.client import Cluster, await_
from e2e.jobs import apply_and_wait, job

pytestmark = pytest.mark.cluster

# Fails with the given status the first time, and then no more.
ONCE = """
import os, pathlib, sys
tried = pathlib.Path('/saved/tried')
if tried.exists():
    print('second try')
else:
    tried.touch()
    sys.exit(int(sys.argv[1]))
"""
CPU: dict[str, Any] = {"accelerator": {"type": "cpu"}}


def saving(folder: Path) -> dict[str, Any]:
    """The fields of a job that has ``folder`` at /saved."""
    volumes = [{"name": "saved", "hostPath": {"path": str(folder)}}]
    return {"volumes": volumes, "volumeMounts": [{"name": "saved", "mountPath": "/saved"}]}


@pytest.mark.parametrize(
    ("launcher", "status", "again"), [("python", 1, False), ("python", 130, True), ("mpirun", 1, True)]
)
def test_a_failure_is_tried_again_where_the_operator_does(
    cluster: Cluster, namespace: str, tmp_path: Path, launcher: str, status: int, again: bool
) -> None:
    spec = {**CPU, **saving(tmp_path), "launcher": launcher, "policy": {"backoffLimit": 1}}
    file = job("once", cluster, **spec, command=["python3", "-c", ONCE, str(status)])
    applied = apply_and_wait(cluster, namespace, file, timeout=90)
    log = cluster.k8sel("logs", "--no-follow", "once", "-n", namespace).stdout
    assert (applied.returncode == 0, "second try" in log) == (again, again), applied.stderr + log


def test_a_deleted_jobs_ranks_can_still_save(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    spec = {**CPU, "launcher": "torchrun", "processesPerNode": 2}
    file = job("saver", cluster, **spec, **saving(tmp_path), command=["python3", "/saved/checkpoint.py"])
    (tmp_path / "checkpoint.py").write_text((Path(__file__).parent / "programs" / "checkpoint.py").read_text())
    cluster.k8sel("apply", "-q", "-n", namespace, "-", input=file)
    await_(lambda: started(cluster, namespace) == 2, what="both ranks")
    cluster.k8sel("delete", "saver", "-n", namespace)
    await_(lambda: (tmp_path / "0").exists() and (tmp_path / "1").exists(), timeout=30, what="both checkpoints")


def started(cluster: Cluster, namespace: str) -> int:
    """Returns the number of ranks that wait for their end."""
    return cluster.k8sel("logs", "--no-follow", "saver", "-n", namespace, check=False).stdout.count("ready\n")


def test_the_other_nodes_logs_stay_after_a_success(cluster: Cluster, namespace: str) -> None:
    """The operator removes pods that run when the first node has ended: it waits for the others."""
    script = "sleep $((3 * PET_NODE_RANK)); echo node $PET_NODE_RANK is done"
    file = job("both", cluster, **CPU, launcher="python", nodes=2, command=["sh", "-c", script])
    applied = apply_and_wait(cluster, namespace, file, timeout=90)
    log = cluster.k8sel("logs", "--no-follow", "both", "-n", namespace)
    assert applied.returncode == 0, applied.stderr
    assert "node 0 is done" in log.stdout
    assert "node 1 is done" in log.stdout
    assert "removed" not in log.stderr


def test_a_worker_that_cannot_start_sshd_ends_the_wait(cluster: Cluster, namespace: str) -> None:
    applied = apply_and_wait(
        cluster, namespace, job("bare", cluster, **CPU, launcher="mpirun", image=cluster.images.nopython)
    )
    assert applied.returncode == 1
    assert "/usr/sbin/sshd: not found" in applied.stderr

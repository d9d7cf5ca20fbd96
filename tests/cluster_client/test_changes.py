"""Tests the changes that apply may make to an existing job, without a cluster."""

from __future__ import annotations

from typing import Any

import pytest

from k8sel.cluster.changes import keep_suspend, refuse_roll_out
from k8sel.cluster.refusal import Refusal, Sent


def job(**policy: object) -> dict[str, Any]:
    """An MPIJob with this runPolicy."""
    metadata = {"name": "train", "namespace": "team"}
    return {"kind": "MPIJob", "metadata": metadata, "spec": {"runPolicy": policy}}


def test_suspend_is_not_sent_again() -> None:
    sent = keep_suspend(job(suspend=True, cleanPodPolicy="Running"), job(suspend=False), "k8sel")
    assert sent["spec"]["runPolicy"] == {"cleanPodPolicy": "Running"}


def test_a_policy_that_the_operator_reads_again_may_change() -> None:
    changed = job(cleanPodPolicy="None")
    refuse_roll_out(job(cleanPodPolicy="Running"), changed, Sent(manifest=changed, job=None))


def test_a_policy_that_the_operator_reads_once_may_not_change() -> None:
    changed = job(backoffLimit=2)
    with pytest.raises(Refusal, match=r"differs from the job on the cluster \(spec\.runPolicy\.backoffLimit\)"):
        refuse_roll_out(job(backoffLimit=1), changed, Sent(manifest=changed, job=None))

"""Tests the changes that apply may make to an existing job, without a cluster."""

from __future__ import annotations

import json
from typing import Any

import pytest

from k8sel.cluster.changes import keep_suspend, refuse_roll_out
from k8sel.cluster.refusal import Refusal, Sent
from k8sel.errors import format_path


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


def started(image: str = "img", **expected: object) -> dict[str, Any]:
    """A PyTorchJob of this image whose entrypoint expects this."""
    variable = {"name": "K8SEL_EXPECT", "value": json.dumps({"version": 1, "devices": [0, 1], **expected})}
    container = {"name": "pytorch", "image": image, "env": [{"name": "A", "value": "1"}, variable]}
    replica = {"template": {"spec": {"containers": [container]}}}
    metadata = {"name": "train", "namespace": "team"}
    return {"kind": "PyTorchJob", "metadata": metadata, "spec": {"pytorchReplicaSpecs": {"Master": replica}}}


def refused(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """The fields of the job file that a refusal names."""
    try:
        refuse_roll_out(old, new, Sent(manifest=new, job=None))
    except Refusal as refusal:
        return [format_path(problem.path) for problem in refusal.problems]
    return []


def test_the_hash_of_the_job_file_is_no_change() -> None:
    assert refused(started(jobFile="aa"), started(jobFile="bb")) == []
    assert refused(started(), started(jobFile="bb")) == []


def test_only_the_field_that_changed_is_refused() -> None:
    assert refused(started(jobFile="aa"), started("other", jobFile="bb")) == ["spec.image"]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"devices": [1, 0]}, "spec.accelerator.devices"),
        ({"order": "fastest"}, "spec.accelerator.order"),
        ({"threadsPerProcess": 4}, "spec.cpu.threadsPerProcess"),
        ({"probe": ["mpirun"]}, "spec.mpi"),
    ],
)
def test_a_changed_expectation_names_the_field_behind_it(change: dict[str, Any], field: str) -> None:
    assert refused(started(), started(**change)) == [field]


def test_an_expectation_made_by_hand_is_compared_as_text() -> None:
    old, new = started(), started()
    new["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]["env"][1]["value"] = "["
    assert refused(old, new) == ["spec.env"]

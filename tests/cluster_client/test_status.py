"""Tests the state read from the API's objects: recorded cases, a fixed clock, no cluster."""

from __future__ import annotations

import json
from datetime import datetime, timedelta, timezone
from typing import Any, Literal

import pytest

from k8sel.cli import apply as cli
from k8sel.cluster import JobRef, Outcome
from k8sel.cluster.jobs import LiveJob
from k8sel.cluster.status import Status, of_launcher, read
from k8sel.facts.kinds import JOB_KINDS

CREATED = datetime(2026, 1, 1, tzinfo=timezone.utc)
Object = dict[str, Any]


def job(*true: str, kind: str = "PyTorchJob", suspend: bool = False, workers: int = 1) -> LiveJob:
    first = "Master" if kind == "PyTorchJob" else "Launcher"
    return LiveJob(
        kind=JOB_KINDS[kind],
        object={
            "metadata": {"name": "job", "namespace": "ns", "uid": "1", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {
                "runPolicy": {"suspend": suspend},
                JOB_KINDS[kind].replica_specs: {first: {"replicas": 1}, "Worker": {"replicas": workers}},
            },
            "status": {"conditions": [{"type": each, "status": "True", "message": f"is {each}"} for each in true]},
        },
    )


def pod(name: str, role: str = "worker", **status: Any) -> Object:  # noqa: ANN401 - the API's own JSON
    labels = {"training.kubeflow.org/replica-type": role, "training.kubeflow.org/replica-index": name[-1]}
    return {
        "metadata": {"name": name, "uid": name, "namespace": "ns", "labels": labels},
        "spec": {"containers": [{"name": "pytorch"}]},
        "status": {"phase": "Pending", **status},
    }


def ended(code: int, at: str = "2026-01-01T00:01:00Z", **more: Any) -> list[Object]:  # noqa: ANN401
    return [{"name": "pytorch", "state": {"terminated": {"exitCode": code, "finishedAt": at, **more}}}]


def later(seconds: int) -> datetime:
    return CREATED + timedelta(seconds=seconds)


@pytest.mark.parametrize(
    ("found", "phase"),
    [
        (job(), "Pending"),
        (job("Created"), "Pending"),
        (job("Created", "Running"), "Running"),
        (job("Created", "Restarting"), "Restarting"),
        (job("Created", "Succeeded"), "Succeeded"),
        (job("Created", "Running", "Failed"), "Failed"),
        (job("Suspended", suspend=True), "Suspended"),
        (job(suspend=True), "Suspended"),
        (job("Failed", suspend=True), "Failed"),
    ],
)
def test_the_phase_follows_the_conditions(found: LiveJob, phase: str) -> None:
    assert read(found, [], now=CREATED).phase == phase


def test_a_restart_is_explained_by_the_operator() -> None:
    assert read(job("Created", "Restarting"), [], now=CREATED).reason == "is Restarting"


def test_a_job_without_conditions_is_looked_after_by_nobody() -> None:
    assert read(job(), [], now=later(5)).reason == ""
    assert (
        read(job(), [], now=later(60)).reason == "no operator handles this job: check that the training-operator runs"
    )
    assert read(job("Created"), [], now=later(60)).reason == ""


def test_the_first_failure_is_the_one_that_counts() -> None:
    late = pod("job-worker-0", phase="Failed", containerStatuses=ended(1, "2026-01-01T00:02:00Z", message="follows"))
    first = pod("job-worker-1", phase="Failed", containerStatuses=ended(78, message="k8sel: node job-worker-1: ..."))
    found = read(job("Failed"), [late, first])
    assert found.failure is not None
    assert (found.failure.node, found.failure.exit_code) == ("job-worker-1", 78)
    assert found.reason == "job-worker-1 ended with exit status 78 (Error): k8sel: node job-worker-1: ..."


MESSAGES = [
    ({"reason": "OOMKilled"}, 137, "out of memory: raise spec.resources.memory (spec.sharedMemory counts as memory)"),
    (
        {
            "reason": "StartError",
            "message": "failed to create containerd task: failed to create shim task: OCI runtime create failed: runc "
            'create failed: unable to start container process: exec: "/bin/sh": stat /bin/sh: no such file or directory'
            ": unknown",
        },
        128,
        "the image cannot start /bin/sh: stat /bin/sh",
    ),
    ({"reason": "StartError", "message": "something new"}, 128, "something new"),
    ({"message": json.dumps({"message": {"message": "RuntimeError: no", "extraInfo": {}}})}, 1, "RuntimeError: no"),
    ({"message": json.dumps({"message": "plain"})}, 1, "plain"),
    ({"message": "[1, 2]"}, 1, "[1, 2]"),
    ({}, 1, ""),
]


@pytest.mark.parametrize(("end", "code", "message"), MESSAGES)
def test_the_message_of_an_end(end: Object, code: int, message: str) -> None:
    found = read(job("Failed"), [pod("job-worker-0", phase="Failed", containerStatuses=ended(code, **end))]).failure
    assert found is not None
    assert found.message.startswith(message)


def test_a_pod_that_failed_as_a_whole() -> None:
    found = read(job("Failed"), [pod("job-worker-0", phase="Failed", reason="Evicted", message="low on memory")])
    assert found.failure is not None
    assert (found.failure.reason, found.failure.message) == ("Evicted", "low on memory")


def test_an_init_container_that_fails() -> None:
    broken = pod("job-worker-0", initContainerStatuses=[{"name": "init", "state": {"terminated": {"exitCode": 1}}}])
    assert read(job(), [broken], now=CREATED).failure is not None


def test_why_it_waits_pods_before_events() -> None:
    waiting = [{"name": "pytorch", "state": {"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}}}]
    event = {"reason": "FailedMount", "message": "no volume", "lastTimestamp": "2026-01-01T00:00:09Z", "metadata": {}}
    older = {**event, "message": "older", "lastTimestamp": "2026-01-01T00:00:01Z"}
    stuck = pod("job-worker-0", containerStatuses=waiting)
    assert read(job(), [stuck], [event], CREATED).reason == "job-worker-0: ImagePullBackOff: no such image"
    creating = [{"name": "pytorch", "state": {"waiting": {"reason": "ContainerCreating"}}}]
    assert read(job(), [pod("job-worker-0", containerStatuses=creating)], [older, event], CREATED).reason == (
        "FailedMount: no volume"
    )


def test_old_warnings_do_not_explain_a_job_that_runs() -> None:
    event = {"reason": "FailedMount", "message": "full", "metadata": {}}
    running = [pod(f"job-worker-{index}", phase="Running") for index in range(2)]
    assert read(job("Running"), running, [event]).reason == ""
    assert read(job("Running"), running[:1], [event]).reason == "FailedMount: full"


def test_a_pod_that_was_placed_at_last_is_not_unschedulable() -> None:
    event = {"reason": "FailedScheduling", "message": "full", "metadata": {}}
    assert read(job("Created"), [pod("job-worker-0")], [event], CREATED).reason == ""


def test_pods_are_listed_by_role_and_number() -> None:
    pods = [pod("job-worker-10"), pod("job-master-0", "master"), pod("job-worker-2"), pod("job-l-0", "launcher")]
    pods[0]["metadata"]["labels"]["training.kubeflow.org/replica-index"] = "10"
    found: Status = read(job(), pods)
    assert [each.node for each in found.pods] == ["job-launcher", "job-master-0", "job-worker-2", "job-worker-10"]


def test_of_several_tries_the_first_is_listed_first() -> None:
    """A batch Job names its pods at random: the log of the last try has to come last."""
    tries = [pod(name, "launcher") for name in ("job-launcher-a0", "job-launcher-z0")]
    for each, at in zip(tries, ("2026-01-01T00:00:09Z", "2026-01-01T00:00:01Z"), strict=True):
        each["metadata"]["creationTimestamp"] = at
    assert [each.name for each in read(job(kind="MPIJob"), tries).pods] == ["job-launcher-z0", "job-launcher-a0"]


@pytest.mark.parametrize(
    ("name", "at", "ours"),
    [
        ("job-launcher", "2026-01-01T00:00:05Z", True),
        ("job-launcher", "2025-12-31T23:59:59Z", False),  # of a job that had this name before
        ("other-launcher", "2026-01-01T00:00:05Z", False),
    ],
)
def test_an_earlier_jobs_events_explain_nothing(name: str, at: str, ours: bool) -> None:
    event = {"involvedObject": {"kind": "Job", "name": name, "uid": "x"}, "lastTimestamp": at, "metadata": {}}
    assert of_launcher(event, job(kind="MPIJob")) is ours


def test_an_mpi_job_that_waits_for_a_failed_node_has_failed() -> None:
    worker = pod("job-worker-0", phase="Failed", containerStatuses=ended(127, message="no sshd"))
    found = read(job("Created", kind="MPIJob"), [worker, pod("job-worker-1", phase="Running")], now=CREATED)
    assert (found.phase, found.finished) == ("Failed", True)
    assert found.reason == "the mpi-operator waits for a node that failed: `k8sel delete` frees the others"
    started = [worker, pod("job-launcher-0", "launcher", phase="Running")]
    assert read(job("Created", "Running", kind="MPIJob"), started, now=CREATED).phase == "Running"
    assert read(job("Created"), [worker], now=CREATED).phase == "Pending"  # a PyTorchJob's operator says so itself


@pytest.mark.parametrize(("result", "status"), [("succeeded", 0), ("failed", 1), ("timeout", 124)])
def test_a_wait_ends_with_the_status_of_its_result(
    result: Literal["succeeded", "failed", "timeout"], status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = Outcome(result=result, status=read(job("Running"), [], []))
    monkeypatch.setattr("k8sel.cluster.wait", lambda *_, **__: outcome)
    at: Any = None
    assert cli._wait(at, JobRef(name="job"), 1.0, quiet=True) == status


def exists(message: str) -> Object:
    return {"reason": "FailedCreatePod", "message": message, "lastTimestamp": "2026-01-01T00:00:09Z", "metadata": {}}


TAKEN = 'Error creating: pods "job-worker-0" already exists'
MANAGED = 'Resource "{}" of Kind "" already exists and is not managed by MPIJob'
WAITS = "waits for the end of {}, which belongs to an earlier job of this name"


@pytest.mark.parametrize(
    ("message", "pods", "reason"),
    [
        (TAKEN, [], WAITS.format("job-worker-0")),
        (TAKEN, ["job-master-0"], WAITS.format("job-worker-0")),
        (TAKEN, ["job-worker-0"], ""),
        (MANAGED.format("job-ssh"), [], WAITS.format("job-ssh")),
        (MANAGED.format("job-ssh"), ["job-worker-0"], ""),
        (MANAGED.format("job-launcher"), ["job-worker-0"], WAITS.format("job-launcher")),
    ],
)
def test_a_name_that_an_earlier_run_has_explains_only_what_is_not_made_yet(
    message: str, pods: list[str], reason: str
) -> None:
    assert read(job("Created"), [pod(name) for name in pods], [exists(message)], CREATED).reason == reason


def test_a_failed_job_begins_with_the_cause_and_the_telling_line() -> None:
    log = "Traceback (most recent call last):\n  ...\nRuntimeError: no"
    failed = pod("job-master-0", "master", phase="Failed", containerStatuses=ended(3, message=log))
    assert read(job("Failed"), [failed]).reason == "job-master-0 ended with exit status 3 (Error): RuntimeError: no"
    checked = pod("job-master-0", phase="Failed", containerStatuses=ended(78, message="x\nk8sel: 2 found\n  a hint"))
    assert read(job("Failed"), [checked]).reason.endswith("exit status 78 (Error): k8sel: 2 found")
    evicted = pod("job-worker-0", phase="Failed", reason="Evicted", message="low on memory")
    assert read(job("Failed"), [evicted]).reason == "job-worker-0 ended (Evicted): low on memory"


def test_a_job_that_was_ended_at_its_deadline_has_that_reason() -> None:
    late = job("Failed")
    message = "Job job has failed because it was active longer than specified deadline"
    late.object["status"]["conditions"][0]["message"] = message
    failed = pod("job-master-0", "master", phase="Failed", containerStatuses=ended(143))
    assert read(late, [failed]).reason == message

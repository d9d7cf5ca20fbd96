"""Tests that a job has the pods that it owns, and no others of its name and labels: those of an earlier run."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster_client.api import Api, Object, owner, serving
from cluster_client.manifests import mpi_job, pytorch_job
from k8sel.cluster import Cluster, JobRef, connect, logs, status, wait
from k8sel.cluster.status import removal
from k8sel.errors import ClusterError

JOB = JobRef(name="again")


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as made:
        yield made


@pytest.fixture
def client(api: Api, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    monkeypatch.setenv("KUBECONFIG", str(api.kubeconfig(tmp_path)))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    return connect()


def pod(name: str, role: str, of: Object | None, phase: str = "Running") -> Object:
    """A pod with the labels of the job ``again``; ``of``: its controller."""
    labels = {"training.kubeflow.org/job-name": "again", "training.kubeflow.org/replica-type": role}
    container = "pytorch" if role == "master" else role
    state = {"terminated": {"exitCode": 0}} if phase == "Succeeded" else {"running": {"startedAt": "x"}}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "labels": labels, **({"ownerReferences": owner(of)} if of else {})},
        "spec": {"containers": [{"name": container}]},
        "status": {"phase": phase, "containerStatuses": [{"name": container, "state": state}]},
    }


def done(job: Object) -> Object:
    return {**job, "status": {"conditions": [{"type": "Succeeded", "status": "True"}]}}


def batch_job(name: str, of: Object) -> Object:
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name, "ownerReferences": owner(of)}}


def earlier(job: Object, uid: str = "earlier") -> Object:
    """The same job, in a run that is deleted."""
    return {**job, "metadata": {**job["metadata"], "uid": uid}}


def test_a_jobs_pods_are_those_that_it_controls(api: Api, client: Cluster) -> None:
    job = api.put(pytorch_job("again"))
    api.put(pod("again-master-0", "master", earlier(job)))
    api.put(pod("again-copy", "master", None))
    assert status(client, JOB).pods == ()
    api.put(pod("again-master-0", "master", job))
    assert [each.name for each in status(client, JOB).pods] == ["again-master-0"]


def test_a_launchers_pod_belongs_to_the_job_of_its_batch_job(api: Api, client: Cluster) -> None:
    job = api.put(mpi_job("again"))
    old = api.put(batch_job("again-launcher", earlier(job)))
    api.put(pod("again-launcher-old", "launcher", old))
    api.put(pod("again-worker-0", "worker", job))
    assert [each.name for each in status(client, JOB).pods] == ["again-worker-0"]
    api.remove("/apis/batch/v1/namespaces/ns/jobs/again-launcher")
    assert [each.name for each in status(client, JOB).pods] == ["again-worker-0"]
    new = api.put(batch_job("again-launcher", job))
    api.put(pod("again-launcher-new", "launcher", new))
    assert [each.name for each in status(client, JOB).pods] == ["again-launcher-new", "again-worker-0"]


def test_a_batch_job_that_may_not_be_read_is_said(api: Api, client: Cluster) -> None:
    job = api.put(mpi_job("again"))
    new = api.put(batch_job("again-launcher", job))
    api.put(pod("again-launcher-new", "launcher", new))
    api.refused["GET /apis/batch/.*"] = 403
    with pytest.raises(ClusterError, match="refused"):
        status(client, JOB)


@pytest.mark.parametrize("follow", [True, False])
def test_an_earlier_runs_log_is_not_read(api: Api, client: Cluster, follow: bool) -> None:
    job = api.put(done(pytorch_job("again")))
    api.put(pod("again-master-0", "master", earlier(job)))
    api.logs["again-master-0"] = "2026-01-01T00:00:00Z from the earlier run\n"
    seen: list[str] = []
    logs(client, JOB, follow=follow, on_line=lambda line: seen.append(line.text))
    assert seen == []


def test_a_wait_does_not_take_an_earlier_runs_pods_for_its_own(api: Api, client: Cluster) -> None:
    """The new pods come while the job is followed, after those of the earlier run have gone."""
    job = api.put(mpi_job("again"))
    old = api.put(pod("again-worker-0", "worker", earlier(job), "Failed"))
    seen: list[tuple[str, ...]] = []

    def change() -> None:
        api.remove(f"/api/v1/namespaces/ns/pods/{old['metadata']['name']}")
        api.put(pod("again-worker-0", "worker", job))
        api.put(pod("again-launcher-x", "launcher", api.put(batch_job("again-launcher", job)), "Succeeded"))
        api.put(done(job))

    threading.Timer(0.5, change).start()
    result = wait(client, JOB, timeout=20, on_change=lambda now: seen.append(tuple(pod.name for pod in now.pods)))
    assert result.result == "succeeded"
    assert seen[0] == ()
    assert seen[-1] == ("again-launcher-x", "again-worker-0")


@pytest.mark.parametrize("follow", [True, False])
def test_the_pods_that_an_ended_job_lost_are_named(api: Api, client: Cluster, follow: bool) -> None:
    job = api.put(done(pytorch_job("again", workers=2)))
    api.put(pod("again-master-0", "master", job, "Succeeded"))
    api.put(pod("again-worker-1", "worker", job, "Succeeded"))
    api.put(pod("again-worker-0", "worker", earlier(job), "Succeeded"))
    api.logs["again-master-0"] = "2026-01-01T00:00:00Z from the master\n"
    notices: list[str] = []
    logs(client, JOB, follow=follow, on_line=lambda _: None, on_notice=notices.append)
    assert status(client, JOB).removed == ("again-worker-0",)
    assert notices == [
        "k8sel: 1 of 3 pods are gone, and no log is left of them: again-worker-0. "
        "The operator removes pods that still run when the job ends (spec.policy.cleanPodPolicy)"
    ]


def test_the_removed_workers_of_an_mpi_job_had_no_log_of_the_ranks(api: Api, client: Cluster) -> None:
    job = api.put(done(mpi_job("again")))
    api.put(pod("again-launcher-x", "launcher", api.put(batch_job("again-launcher", job)), "Succeeded"))
    notices: list[str] = []
    logs(client, JOB, follow=False, on_line=lambda _: None, on_notice=notices.append)
    assert notices == []
    found = status(client, JOB)
    assert found.removed == ("again-worker-0",)
    assert "gone, and no log is left of them: again-worker-0. Their ranks wrote to the launcher's log. " in removal(
        found.kind, found.removed, 2
    )
    api.remove("/api/v1/namespaces/ns/pods/again-launcher-x")
    logs(client, JOB, follow=False, on_line=lambda _: None, on_notice=notices.append)
    assert notices[0].startswith(
        "k8sel: 2 of 2 pods are gone, and no log is left of them: again-launcher, again-worker-0. The op"
    )


def test_a_job_that_has_not_ended_has_lost_no_pod(api: Api, client: Cluster) -> None:
    api.put(pytorch_job("again", workers=2))
    assert status(client, JOB).removed == ()


def test_many_removed_pods_are_counted(api: Api, client: Cluster) -> None:
    api.put(done(pytorch_job("again", workers=29)))
    found = status(client, JOB)
    text = removal(found.kind, found.removed, 30)
    assert text.startswith("30 of 30 pods are gone, and no log is left of them: again-master-0, again-worker-0, ")
    assert "again-worker-8 and 20 more. The operator" in text
    huge = pytorch_job("again")
    huge["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] = 10**12
    api.put(done(huge))
    assert len(status(client, JOB).removed) == 10_000


def test_logs_of_a_pod_that_waits_give_up_after_their_own_time(
    api: Api, client: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reader has a connection that could break: the watches give up."""
    monkeypatch.setattr(sys.modules["k8sel.cluster.logs"], "GIVE_UP_SECONDS", 2)  # the package has a function `logs`
    api.put(pytorch_job("again"))
    notices: list[str] = []
    threading.Timer(1, setattr, [api, "away", True]).start()
    began = time.monotonic()
    with pytest.raises(ClusterError, match=r"http://127\.0\.0\.1"):
        logs(client, JOB, on_line=lambda _: None, on_notice=notices.append)
    assert time.monotonic() - began < 20
    assert [notice.rpartition(". ")[2] for notice in notices] == ["The job goes on; k8sel tries again for 2 s"]

"""status, wait and logs of real jobs: what is said while they wait, run, end and fail."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from itertools import pairwise

import pytest

from cluster.client import Cluster as Box
from cluster.client import await_
from cluster_client.manifests import container, mpi_job, pytorch_job
from cluster_client.wire import Wire, wire
from k8sel.cluster import Cluster, JobRef, LogLine, Status, apply, delete, logs, status, wait
from k8sel.cluster import watch as watches
from k8sel.cluster.rest import find
from k8sel.errors import ClusterError
from k8sel.facts.kinds import JOB_KINDS

pytestmark = pytest.mark.cluster

COUNT = 2000
CHATTY = f"for i in $(seq {COUNT}); do echo $HOSTNAME $i; done; sleep 2; printf 'last words'"


def outcome(client: Cluster, name: str, timeout: float = 60) -> tuple[str, list[Status]]:
    seen: list[Status] = []
    result = wait(client, JobRef(name=name), timeout=timeout, on_change=seen.append)
    assert seen[-1] == result.status
    assert all(one != other for one, other in pairwise(seen))
    return result.result, seen


def until(client: Cluster, name: str, wanted: Callable[[Status], bool]) -> Status:
    found = status(client, JobRef(name=name))

    def there() -> bool:
        nonlocal found
        found = status(client, JobRef(name=name))
        return wanted(found)

    await_(there, what=f"the wanted state of {name}")
    return found


@pytest.mark.parametrize("job", [pytorch_job("good", "sleep 1", workers=1), mpi_job("good", "sleep 1")])
def test_a_job_that_succeeds(client: Cluster, job: dict[str, object]) -> None:
    apply(client, [job])
    result, seen = outcome(client, "good")
    assert result == "succeeded"
    assert seen[0].phase == "Pending"
    assert seen[-1].phase == "Succeeded"
    assert seen[-1].failure is None


@pytest.mark.parametrize("job", [pytorch_job("bad", "sleep 1"), mpi_job("bad", "sleep 1")])
def test_a_job_that_fails_says_what_its_container_said(client: Cluster, job: dict[str, object]) -> None:
    for replica in (job["spec"].get("pytorchReplicaSpecs") or job["spec"]["mpiReplicaSpecs"]).values():  # type: ignore[attr-defined,index]
        pod = replica["template"]["spec"]["containers"][0]
        if pod["name"] != "worker":
            pod["command"][-1] = "echo k8sel: node bad: 4 devices expected, 3 found > /dev/termination-log; exit 78"
    apply(client, [job])
    result, seen = outcome(client, "bad")
    assert result == "failed"
    failure = seen[-1].failure
    assert failure is not None
    assert (failure.exit_code, failure.message) == (78, "k8sel: node bad: 4 devices expected, 3 found")
    assert failure.node in ("bad-master-0", "bad-launcher")
    assert status(client, JobRef(name="bad")).failure == failure


def test_a_wait_that_takes_too_long(client: Cluster) -> None:
    apply(client, [pytorch_job("slow", "sleep 600")])
    began = time.monotonic()
    assert outcome(client, "slow", timeout=3)[0] == "timeout"
    assert 2.5 < time.monotonic() - began < 6


def test_a_job_that_is_deleted_meanwhile(client: Cluster) -> None:
    apply(client, [pytorch_job("gone", "sleep 600")])
    threading.Timer(2, delete, [client, JobRef(name="gone")]).start()
    with pytest.raises(ClusterError, match="PyTorchJob gone was deleted while k8sel followed it"):
        wait(client, JobRef(name="gone"), timeout=30)


def test_an_image_without_the_program(client: Cluster, cluster: Box) -> None:
    job = pytorch_job("nopython", image=cluster.images.nopython)
    container(job)["command"] = ["python3", "/k8sel/entrypoint.pyz"]
    apply(client, [job])
    failure = outcome(client, "nopython")[1][-1].failure
    assert failure is not None
    assert failure.reason == "StartError"
    assert failure.message.startswith("the image cannot start python3: executable file not found in $PATH. ")
    assert "Use an image with python3" in failure.message


def test_why_a_pod_waits(client: Cluster) -> None:
    big, lost = pytorch_job("big"), pytorch_job("lost", image="nowhere.invalid/none:1")
    container(big)["resources"] = {"limits": {"cpu": "1000"}}
    apply(client, [big])
    apply(client, [lost])
    reason = until(client, "big", lambda found: bool(found.reason)).reason
    assert reason.startswith("big-master-0: Unschedulable: 0/1 nodes are available: 1 Insufficient cpu")
    reason = until(client, "lost", lambda found: "Pull" in found.reason).reason
    assert reason.startswith(("lost-master-0: ErrImagePull: ", "lost-master-0: ImagePullBackOff: "))


def test_why_there_is_no_pod(client: Cluster, cluster: Box) -> None:
    cluster.kubectl("create", "quota", "none", "-n", client.namespace, "--hard=pods=0")
    apply(client, [pytorch_job("quota")])
    reason = until(client, "quota", lambda found: bool(found.reason)).reason
    assert reason.startswith("FailedCreatePod: Error creating: pods")
    assert "exceeded quota: none" in reason


def test_an_mpi_job_that_its_operator_refuses(client: Cluster) -> None:
    apply(client, [mpi_job("invalid", launchers=2)])
    reason = until(client, "invalid", lambda found: bool(found.reason)).reason
    assert reason.startswith("ValidationError: Found validation errors: spec.mpiReplicaSpecs[Launcher].replicas")


def test_a_suspended_job(client: Cluster) -> None:
    job = pytorch_job("asleep")
    job["spec"]["runPolicy"]["suspend"] = True
    job["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team"}
    apply(client, [job])
    found = status(client, JobRef(name="asleep"))
    assert (found.phase, found.reason) == ("Suspended", "waits in queue team to be admitted")


def read_all(
    client: Cluster, name: str, follow: bool = True, began: threading.Event | None = None
) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    began = began or threading.Event()

    def take(line: LogLine) -> None:
        began.set()
        found.setdefault(line.node, []).append(line.text)

    logs(client, JobRef(name=name), follow=follow, on_line=take)
    return found


def all_of(pod: str) -> list[str]:
    return [*(f"{pod} {number}" for number in range(1, COUNT + 1)), "last words"]


def test_the_logs_of_two_pods_are_whole_and_apart(client: Cluster) -> None:
    apply(client, [pytorch_job("talk", CHATTY, workers=1)])
    expected = {pod: all_of(pod) for pod in ("talk-master-0", "talk-worker-0")}
    assert read_all(client, "talk") == expected
    wait(client, JobRef(name="talk"), timeout=30)
    assert read_all(client, "talk", follow=False) == expected
    assert read_all(client, "talk") == expected


def test_an_earlier_run_that_still_ends_is_not_this_job(client: Cluster) -> None:
    old = pytorch_job("renewed", "trap '' TERM; echo old; sleep 600 & wait; wait")
    old["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["terminationGracePeriodSeconds"] = 12
    apply(client, [old])
    until(client, "renewed", lambda found: [pod.ready for pod in found.pods] == [True])
    delete(client, JobRef(name="renewed"))
    await_(lambda: _gone(client, "renewed"), what="end of the earlier job's object")
    apply(client, [pytorch_job("renewed", "echo new")])
    now = status(client, JobRef(name="renewed"))
    assert now.pods == ()
    assert read_all(client, "renewed") == {"renewed-master-0": ["new"]}


def _gone(client: Cluster, name: str) -> bool:
    return find(client, JOB_KINDS["PyTorchJob"].path(client.namespace, name)) is None


def test_why_there_are_no_lines_yet(client: Cluster) -> None:
    big = pytorch_job("later")
    container(big)["resources"] = {"limits": {"cpu": "1000"}}
    apply(client, [big])
    seen: list[str] = []

    def look(found: Status) -> None:
        seen.append(found.reason)
        if "Insufficient cpu" in found.reason:
            delete(client, JobRef(name="later"), missing_ok=True)

    with pytest.raises(ClusterError, match="PyTorchJob later was deleted while k8sel followed it: it has no result"):
        logs(client, JobRef(name="later"), on_line=lambda _: None, on_change=look)
    assert any("Insufficient cpu" in reason for reason in seen)


def test_the_logs_of_a_launcher_and_a_worker_that_never_ends(client: Cluster) -> None:
    job = mpi_job("mpi", "echo from the launcher")
    job["spec"]["runPolicy"]["cleanPodPolicy"] = "None"
    apply(client, [job])
    assert read_all(client, "mpi") == {"mpi-launcher": ["from the launcher"]}


def test_a_restarted_container_is_read_on(client: Cluster) -> None:
    job = pytorch_job("again", "echo start; test -e /tmp/k/x && sleep 6 && exit; touch /tmp/k/x; exit 1")
    job["spec"]["runPolicy"]["backoffLimit"] = 3
    replica = job["spec"]["pytorchReplicaSpecs"]["Master"]
    replica["restartPolicy"] = "OnFailure"
    replica["template"]["spec"]["volumes"] = [{"name": "k", "emptyDir": {}}]
    container(job)["volumeMounts"] = [{"name": "k", "mountPath": "/tmp/k"}]
    apply(client, [job])
    both = {"again-master-0": ["start", "start"]}
    followed: list[object] = []
    reader = threading.Thread(target=lambda: followed.append(read_all(client, "again")))
    reader.start()
    until(client, "again", lambda found: any(pod.restarts and pod.ready for pod in found.pods))
    assert read_all(client, "again", follow=False) == both
    assert wait(client, JobRef(name="again"), timeout=30).result == "succeeded"
    reader.join()
    assert followed == [both]


def snip(line: Wire, following: threading.Event, stop: threading.Event) -> None:
    """Cuts once something is followed: a first request that fails is another matter."""
    following.wait()
    while not stop.wait(0.7):
        line.cut()


@pytest.mark.parametrize("thread", ["k8sel-watch-job", "k8sel-watch-pods", "k8sel-log-fault-master-0"])
def test_a_fault_of_our_own_is_no_silence(client: Cluster, thread: str) -> None:
    """In the threads that read, as in a plugin for credentials: it ends the command, and nothing waits for ever."""

    def headers() -> dict[str, str]:
        if threading.current_thread().name == thread:
            raise LookupError("no credentials")
        return client.auth_headers()

    apply(client, [pytorch_job("fault", "sleep 600")])
    with pytest.raises(LookupError, match="no credentials"):
        logs(replace(client, auth_headers=headers), JobRef(name="fault"), on_line=print)


def test_a_program_may_be_silent_for_longer_than_a_server_may_be_away(
    client: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = import_module("k8sel.cluster.logs")
    monkeypatch.setattr(reading, "_SILENCE_SECONDS", 0.5)
    monkeypatch.setattr(reading, "GIVE_UP_SECONDS", 1.0)
    apply(client, [pytorch_job("quiet", "sleep 6; echo late")])
    until(client, "quiet", lambda found: found.phase == "Running")

    assert read_all(client, "quiet") == {"quiet-master-0": ["late"]}


def test_broken_connections_lose_and_repeat_nothing(client: Cluster) -> None:
    script = f"for i in $(seq {COUNT}); do echo $HOSTNAME $i; sleep 0.002; done; printf 'last words'"
    apply(client, [pytorch_job("torn", script, workers=1)])
    began, stop = threading.Event(), threading.Event()
    with wire(client.host) as line:
        torn = replace(client, host=line.host)
        results: list[str] = []
        waiter = threading.Thread(target=lambda: results.append(wait(torn, JobRef(name="torn"), timeout=60).result))
        waiter.start()
        until(client, "torn", lambda found: found.phase == "Running")
        threading.Thread(target=snip, args=(line, began, stop), daemon=True).start()
        found = read_all(torn, "torn", began=began)
        waiter.join()
        stop.set()
        assert line.cuts > 3
    assert found == {pod: all_of(pod) for pod in ("torn-master-0", "torn-worker-0")}
    assert results == ["succeeded"]


def test_a_version_that_the_server_has_forgotten(client: Cluster) -> None:
    patience = watches.Patience(threading.Event())
    path = JOB_KINDS["PyTorchJob"].path(client.namespace)  # the server knows none of before the CRD was made
    with pytest.raises(watches._TooOldError):
        next(watches._events(client, path, {"resourceVersion": "1"}, patience))

"""Tests several jobs in one command, time limits and Ctrl-C: each job's state is said, and the command that goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from cluster_client.api import Api, Object, owner, serving
from cluster_client.manifests import pytorch_job

K8SEL = (sys.executable, "-m", "k8sel")
JOBS = "/apis/kubeflow.org/v1/namespaces/ns/pytorchjobs"
MAPS = "/api/v1/namespaces/ns/configmaps"


@pytest.fixture
def api() -> Iterator[Api]:
    with serving() as made:
        yield made


@pytest.fixture
def start(api: Api, tmp_path: Path) -> Callable[..., subprocess.Popen[str]]:
    """Starts k8sel in a folder with the job files a.yaml, b.yaml and c.yaml."""
    for name in "abc":
        write(tmp_path, name)
    environment = {**os.environ, "KUBECONFIG": str(api.kubeconfig(tmp_path)), "NO_PROXY": "127.0.0.1"}
    return partial(launch, tmp_path, environment)


def launch(folder: Path, environment: dict[str, str], *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*K8SEL, *words],
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


Start = Callable[..., "subprocess.Popen[str]"]


def write(folder: Path, name: str) -> None:
    (folder / f"{name}.yaml").write_text(
        f"""\
apiVersion: k8sel.dev/v1alpha1
kind: AcceleratedJob
metadata: {{name: {name}}}
spec: {{image: "box/base:1", command: ["true"], launcher: python, accelerator: {{type: cpu}}}}
"""
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, errors = process.communicate(timeout=30)
    assert "Traceback" not in errors
    return process.returncode, out, errors


def test_an_apply_that_fails_names_the_rest(api: Api, start: Start) -> None:
    api.refused[f"PATCH {JOBS}/b"] = 422
    status, out, errors = ended(start("apply", "--context", "one", "a.yaml", "b.yaml", "c.yaml"))
    assert status == 1
    assert [line for line in out.splitlines() if "PyTorchJob" in line] == ["PyTorchJob ns/a created"]
    assert errors.count("refused PyTorchJob b") == 1
    assert errors.endswith(
        "k8sel: applied: a; failed: b; not tried: c. Go on with: k8sel apply --context one b.yaml c.yaml\n"
    )


def test_a_delete_that_fails_names_the_rest(api: Api, start: Start) -> None:
    for name in "ac":
        api.put(pytorch_job(name))
    status, out, errors = ended(start("delete", "-n", "ns", "a", "b", "c"))
    assert (status, out) == (1, "PyTorchJob ns/a deleted\n")
    assert "no PyTorchJob or MPIJob named b in namespace ns" in errors
    assert errors.endswith("k8sel: deleted: a; failed: b; not tried: c. Go on with: k8sel delete -n ns b c\n")


def test_one_job_alone_needs_no_report(api: Api, start: Start) -> None:
    assert "k8sel: " not in ended(start("delete", "-n", "ns", "b"))[2]


def hold(api: Api, pattern: str, seconds: float = 20) -> None:
    """The server accepts such requests and does not answer them."""
    api.held[pattern] = seconds


def test_the_time_limit_covers_the_apply(api: Api, start: Start) -> None:
    hold(api, f"PATCH {MAPS}/.*")
    began = time.monotonic()
    status, _, errors = ended(start("apply", "--wait", "--timeout", "6", "a.yaml", "b.yaml"))
    assert (status, time.monotonic() - began < 16) == (124, True)
    assert "k8sel: not applied after 6 s\n" in errors
    assert "k8sel: not finished: a; not tried: b. Go on with: k8sel apply --wait a.yaml b.yaml\n" in errors


def test_the_time_limit_is_that_of_apply_and_wait_together(api: Api, start: Start) -> None:
    began = time.monotonic()
    status, _, errors = ended(start("apply", "--wait", "--timeout", "8", "a.yaml", "b.yaml"))
    assert (status, time.monotonic() - began < 14) == (124, True)
    assert errors.count("is not done after 8 s") == 2


def after(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("words", [("apply", "--wait", "a.yaml"), ("logs", "-f", "a.yaml")], ids=lambda words: words[0])
def test_ctrl_c_says_that_the_job_goes_on(api: Api, start: Start, words: tuple[str, ...]) -> None:
    if words[0] == "logs":
        api.put(pytorch_job("a"))
    process = start(*words)
    after(lambda: f"GET {JOBS}" in api.requests)  # the watch of the job
    process.send_signal(signal.SIGINT)
    status, _, errors = ended(process)
    assert status == 130
    assert errors.endswith(
        "k8sel: stopped following; the job a goes on. Follow it: k8sel logs a -n ns. End it: k8sel delete a -n ns\n"
    )


def test_a_job_that_is_deleted_while_its_logs_are_followed(api: Api, start: Start) -> None:
    job = api.put(pytorch_job("a"))
    api.put(running_pod(job))
    process = start("logs", "-f", "a", "-n", "ns")
    after(lambda: f"GET {JOBS}" in api.requests)
    api.remove("/api/v1/namespaces/ns/pods/a-master-0")
    api.remove(f"{JOBS}/a")
    status, _, errors = ended(process)
    assert status == 1
    assert errors.endswith("PyTorchJob a was deleted while k8sel followed it: it has no result\n")


def running_pod(job: Object) -> Object:
    return {
        "kind": "Pod",
        "metadata": {
            "name": "a-master-0",
            "labels": {"training.kubeflow.org/job-name": "a"},
            "ownerReferences": owner(job),
        },
        "spec": {"containers": [{"name": "pytorch"}]},
        "status": {"phase": "Running"},
    }


@pytest.mark.parametrize("words", [("apply", "--wait", "a.yaml"), ("logs", "-f", "a.yaml")], ids=lambda words: words[0])
def test_a_server_that_is_away_is_said_once_and_its_return_too(api: Api, start: Start, words: tuple[str, ...]) -> None:
    if words[0] == "logs":
        api.put(pytorch_job("a"))
    process = start(*words)
    after(lambda: f"GET {JOBS}" in api.requests)
    api.away = True
    threading.Timer(3, back, [api]).start()
    _, _, errors = ended(process)
    seconds = 60 if words[0] == "logs" else 300
    lines = [line for line in errors.splitlines() if line.startswith("k8sel: ") and "answer" in line]
    assert len(lines) == 2
    assert lines[0].startswith("k8sel: no answer: http://127.0.0.1:")
    assert lines[0].endswith(f". The job goes on; k8sel tries again for {seconds} s")
    assert lines[1] == "k8sel: the API server answers again"


def back(api: Api) -> None:
    """The server answers again; the job ends a little later."""
    api.away = False
    time.sleep(4)
    live = api.objects[f"{JOBS}/a"]
    api.put({**live, "status": {"conditions": [{"type": "Succeeded", "status": "True"}]}})


@pytest.mark.parametrize(
    ("broken", "left"),
    [
        ("PATCH .*/configmaps/.*", "k8sel has deleted ConfigMap a-k8sel-"),
        ("(PATCH .*/pytorchjobs|DELETE .*configmaps)/.*", "may still exist. "),
    ],
)
def test_a_connection_that_breaks_does_not_leave_a_config_map_unsaid(
    api: Api, start: Start, broken: str, left: str
) -> None:
    api.broken = broken
    status, _, errors = ended(start("apply", "a.yaml"))
    assert status == 1
    assert left in errors
    if "may still" in left:
        assert errors.endswith("Apply again to complete the job, or remove all of it: k8sel delete a -n ns\n")
        assert any("configmaps" in path for path in api.objects)


def test_an_answer_that_is_lost_takes_nothing_from_the_job(api: Api, start: Start) -> None:
    api.lost = f"PATCH {JOBS}/a"
    status, _, errors = ended(start("apply", "a.yaml"))
    assert status == 1
    assert "and PyTorchJob a exist: only the answer was lost. Apply again to complete the job" in errors
    assert sorted(path.split("/")[-2] for path in api.objects) == ["configmaps", "pytorchjobs"]
    api.lost = ""
    assert ended(start("apply", "a.yaml"))[0] == 0
    (config_map,) = (item for item in api.objects.values() if item["kind"] == "ConfigMap")
    assert config_map["metadata"]["ownerReferences"][0]["name"] == "a"


def test_a_config_map_that_gets_no_owner_is_said(api: Api, start: Start) -> None:
    api.broken = "PATCH .*/configmaps/.* 1"  # the second write
    status, _, errors = ended(start("apply", "a.yaml"))
    assert status == 1
    assert "exists, but has no owner yet. Apply again to complete the job" in errors

"""Tests the commands as a user types them: every example, a refusal, a job that waits, kubectl's plugin."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

import pytest
from cluster_client.test_refusal_live import CONTAINERS, JOB_FILE, policy
from cluster_client.test_trouble_live import as_user

from cluster import machine
from cluster.client import Cluster, await_
from e2e.jobs import job
from k8sel.cluster import Cluster as Client
from k8sel.cluster import connect, nodes

pytestmark = pytest.mark.cluster

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
K8SEL = (sys.executable, "-m", "k8sel")


@pytest.fixture
def client(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The library's way in."""
    for name, value in cluster.environment.items():
        monkeypatch.setenv(name, value)
    return connect(namespace=namespace)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_the_server_accepts_every_example(cluster: Cluster, namespace: str, example: Path) -> None:
    text = example.read_text().replace("namespace: team-a", f"namespace: {namespace}")  # queue.yaml names one
    done = cluster.k8sel("apply", "-q", "--dry-run=server", "-n", namespace, "-", input=text)
    assert done.stdout.count(" created (dry run)\n") == 2
    assert done.stderr == ""


def test_a_policys_refusal_names_the_line_of_the_file(cluster: Cluster, namespace: str, tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(JOB_FILE)
    validation = {"expression": f"{CONTAINERS}.all(c, c.image.startsWith('reg/'))", "message": "images come from reg/"}

    def refused() -> str:
        done = cluster.k8sel("apply", "-q", "--dry-run=server", "-n", namespace, str(file), check=False)
        return done.stderr if done.returncode == 1 else ""

    with policy(cluster, namespace, validation):
        said = await_(refused, what="refusal")
    assert f"{file}:5:10: spec.image: forbidden: " in said
    assert "images come from reg/" in said


def test_the_nodes_sizes_are_read_and_compared(client: Client, cluster: Cluster, namespace: str) -> None:
    assert nodes.sizes(client, "nvidia.com/gpu") == [8]
    assert nodes.sizes(client, "example.com/none") == []
    large = job("large", cluster, launcher="torchrun", accelerator={"type": "cuda", "count": 16}, sharedMemory="1Gi")
    said = "spec.accelerator.count: warning: no node has 16 nvidia.com/gpu, so the pods would stay Pending: the largest"
    for command in (("plan", "--cluster", "-"), ("apply", "--dry-run=server", "-n", namespace, "-")):
        assert said in cluster.k8sel(*command, input=large).stderr


def test_who_may_not_list_nodes_is_not_bothered(
    client: Client, cluster: Cluster, namespace: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.kubectl("create", "serviceaccount", "member", "-n", namespace)
    token = cluster.kubectl("create", "token", "member", "-n", namespace).stdout.strip()
    member = as_user(client, token, tmp_path, monkeypatch)
    assert nodes.sizes(member, "nvidia.com/gpu") is None


def test_logs_say_why_none_come(cluster: Cluster, namespace: str) -> None:
    waits = job("waits", cluster, launcher="torchrun", accelerator={"type": "cuda", "count": 16}, sharedMemory="1Gi")
    cluster.k8sel("apply", "-q", "-n", namespace, "-", input=waits)
    quiet = cluster.start(*K8SEL, "logs", "-q", "-n", namespace, "waits")
    loud = cluster.start(*K8SEL, "logs", "-n", namespace, "waits")
    assert loud.stderr is not None
    said = next(line for line in loud.stderr if "Unschedulable" in line)  # both have asked by then
    assert "Unschedulable: 0/1 nodes are available" in said
    where = f"waits -n {namespace}"
    ways = f"Follow it: k8sel logs {where}. End it: k8sel delete {where}"
    goes_on = f"k8sel: stopped following; the job waits goes on. {ways}\n"
    for client, last in ((quiet, ""), (loud, goes_on)):
        client.send_signal(signal.SIGINT)
        shown, said = client.communicate(timeout=20)
        assert (client.returncode, shown, said) == (130, "", last)


def test_kubectl_finds_the_plugin(cluster: Cluster, namespace: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{cluster.environment['PATH']}"
    kubectl = str(machine.CACHE / "bin" / "kubectl")
    done = cluster.run("env", f"PATH={path}", kubectl, "k8sel", "render", "-q", str(EXAMPLES[0]))
    assert done.stdout == cluster.k8sel("render", "-q", str(EXAMPLES[0])).stdout
    again = cluster.run("env", f"PATH={path}", kubectl, "k8sel", "status", "none", "-n", namespace, check=False)
    assert again.returncode == 1
    assert f"no PyTorchJob or MPIJob named none in namespace {namespace}" in again.stderr


def test_a_webhook_that_is_not_up_yet_is_waited_for(cluster: Cluster, namespace: str, alone: None) -> None:
    file = EXAMPLES[0].parent / "hello.yaml"
    with cluster.without("training-operator"):
        client = cluster.start(*K8SEL, "apply", "--dry-run=server", "-n", namespace, str(file))
        assert client.stderr is not None
        said = client.stderr.readline()
        assert client.poll() is None
    shown, _ = client.communicate(timeout=60)
    assert said.startswith("waiting: webhook ")
    assert "does not answer: " in said
    assert (client.returncode, shown.count(" created (dry run)\n")) == (0, 2)

"""Tests messages about faults of the cluster: each names the cause and the next step."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cluster.client import Cluster as Box
from cluster.client import await_
from cluster_client.manifests import config_map, mpi_job, pytorch_job
from k8sel.cluster import Cluster, JobRef, Options, apply, connect, delete, logs, pod_security, status, wait
from k8sel.errors import ClusterError

pytestmark = pytest.mark.cluster


@pytest.fixture
def reader(cluster: Box, client: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """A service account that may read PyTorchJobs in its namespace, and nothing else."""
    namespace = client.namespace
    kubectl = cluster.kubectl
    kubectl("create", "serviceaccount", "reader", "-n", namespace)
    kubectl("create", "role", "reader", "-n", namespace, "--verb=get,list,watch", "--resource=pytorchjobs.kubeflow.org")
    kubectl("create", "rolebinding", "reader", "-n", namespace, "--role=reader", f"--serviceaccount={namespace}:reader")
    token = kubectl("create", "token", "reader", "-n", namespace).stdout.strip()
    return as_user(client, token, tmp_path, monkeypatch)


def as_user(client: Cluster, token: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The same cluster with another token."""
    kubeconfig = folder / "kubeconfig"
    kubeconfig.write_text(
        f"""
clusters: [{{name: box, cluster: {{server: "{client.host}", insecure-skip-tls-verify: true}}}}]
users: [{{name: user, user: {{token: "{token}"}}}}]
contexts: [{{name: other, context: {{cluster: box, user: user, namespace: {client.namespace}}}}}]
current-context: other
"""
    )
    monkeypatch.setenv("KUBECONFIG", str(kubeconfig))
    return connect()


def test_the_context_names_the_namespace(client: Cluster, reader: Cluster) -> None:
    assert (reader.namespace, reader.context) == (client.namespace, "other")


def test_a_missing_right_is_named(reader: Cluster) -> None:
    with pytest.raises(ClusterError) as caught:
        apply(reader, [config_map("rights"), pytorch_job("rights")])
    shown = str(caught.value)
    assert 'cannot patch resource "pytorchjobs"' in shown
    assert f"Ask for a Role in namespace {reader.namespace} that allows patch on pytorchjobs.kubeflow.org" in shown


@pytest.mark.parametrize("act", [status, delete, wait, lambda c, r: logs(c, r, on_line=print)])
def test_a_missing_right_on_pods_is_named_too(client: Cluster, reader: Cluster, act: object) -> None:
    apply(client, [pytorch_job("mine", "sleep 600")])
    assert callable(act)
    with pytest.raises(ClusterError, match=r"Ask for a Role in namespace \S+ that allows (list|delete) on \w+"):
        act(reader, JobRef(name="mine", kind="PyTorchJob"))


def test_pod_security_may_be_unreadable(reader: Cluster) -> None:
    assert pod_security(reader) is None


def test_a_token_that_is_not_accepted(client: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = as_user(client, "wrong-secret", tmp_path, monkeypatch)
    with pytest.raises(ClusterError, match="the credentials of context other") as caught:
        status(nobody, JobRef(name="any"))
    assert "wrong-secret" not in str(caught.value)
    assert "wrong-secret" not in repr(nobody)


def test_a_missing_namespace(client: Cluster) -> None:
    with pytest.raises(
        ClusterError, match=r"there is no namespace nowhere\. Create it: kubectl create namespace nowhere"
    ):
        apply(client, [pytorch_job("any")], Options(namespace="nowhere"))


def test_a_missing_job(client: Cluster) -> None:
    with pytest.raises(ClusterError, match=f"no PyTorchJob or MPIJob named none in namespace {client.namespace}"):
        status(client, JobRef(name="none"))
    with pytest.raises(ClusterError, match="no kind of job is called Job"):
        status(client, JobRef(name="none", kind="Job"))


@contextmanager
def not_served(cluster: Box, crd: str) -> Iterator[None]:
    """The cluster as if a CRD were not installed; its objects stay."""
    patch = '[{"op": "replace", "path": "/spec/versions/0/served", "value": %s}]'
    cluster.kubectl("patch", "crd", crd, "--type=json", "-p", patch % "false")
    try:
        await_(lambda: cluster.kubectl("get", crd, check=False).returncode, what="end of the CRD")
        yield
    finally:
        cluster.kubectl("patch", "crd", crd, "--type=json", "-p", patch % "true")
        await_(lambda: not cluster.kubectl("get", crd, check=False).returncode, what="the CRD")


@pytest.mark.usefixtures("alone")
def test_a_missing_crd(client: Cluster, cluster: Box) -> None:
    with cluster.without("mpi-operator"), not_served(cluster, "mpijobs.kubeflow.org"):
        with pytest.raises(
            ClusterError, match=r"no MPIJob \(kubeflow.org/v2beta1\): the mpi-operator is not installed"
        ):
            apply(client, [config_map("a"), mpi_job("a")])
        with pytest.raises(ClusterError, match="Install the mpi-operator"):
            status(client, JobRef(name="a", kind="MPIJob"))
        assert "a-k8sel-abc" not in cluster.kubectl("get", "configmaps", "-n", client.namespace).stdout
        apply(client, [pytorch_job("other")])
        assert status(client, JobRef(name="other")).kind == "PyTorchJob"


@pytest.mark.usefixtures("alone")
def test_a_webhook_that_is_down_is_waited_for_then_named(client: Cluster, cluster: Box) -> None:
    said: list[str] = []
    with cluster.without("training-operator"), pytest.raises(ClusterError) as caught:
        apply(client, [pytorch_job("late")], Options(webhook_seconds=3, progress=said.append))
    shown = str(caught.value)
    assert "after 3 s, webhook validator.pytorchjob.training-operator.kubeflow.org" in shown
    assert "(service kubeflow/training-operator) does not answer: " in shown
    assert "kubectl get endpointslices,pods -n kubeflow" in shown
    assert said[0].startswith("waiting: webhook validator.pytorchjob.training-operator.kubeflow.org")


def restart(cluster: Box, when: threading.Event) -> None:
    when.wait(30)
    cluster.restart("training-operator")


@pytest.mark.usefixtures("alone")
def test_a_webhook_that_comes_up_meanwhile(client: Cluster, cluster: Box) -> None:
    waiting = threading.Event()
    with cluster.without("training-operator"):
        starter = threading.Thread(target=restart, args=(cluster, waiting))
        starter.start()
        done = apply(client, [config_map("up"), pytorch_job("up")], Options(progress=lambda _: waiting.set()))
        starter.join()
    assert [each.action for each in done] == ["created", "created"]


@pytest.mark.usefixtures("alone")
def test_an_operator_that_is_not_there(client: Cluster, cluster: Box) -> None:
    with cluster.without("mpi-operator"):
        apply(client, [mpi_job("alone")])
        reason = await_(lambda: status(client, JobRef(name="alone")).reason, what="a reason")
    assert reason == "no operator handles this job: check that the mpi-operator runs"

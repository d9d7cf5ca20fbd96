"""The roles of manifests/rbac: each command works with exactly its role, and names the verb that it lacks."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from cluster.client import Cluster as Box
from cluster.client import Completed, await_
from cluster_client.manifests import config_map, mpi_job, pytorch_job
from cluster_client.test_trouble_live import as_user
from k8sel.cluster import Cluster, JobRef, apply, delete, logs, pod_security, status, wait
from k8sel.errors import ClusterError

pytestmark = pytest.mark.cluster

FOLDER = Path(__file__).parents[2] / "manifests" / "rbac"
Right = tuple[str, str, str]  # API group, resource, verb
JOBS = "kubeflow.org"
EXPLAIN = {("", "events", "list"), ("", "namespaces", "get")}  # optional: a command works without them
JOB = """\
apiVersion: k8sel.dev/v1alpha1
kind: AcceleratedJob
metadata: {name: mine}
spec: {image: "box/base:1", command: [echo, from the job], launcher: python, accelerator: {type: cpu}}
"""


def rights(role: str) -> set[Right]:
    """Every right of a role, one by one."""
    (document,) = yaml.safe_load_all((FOLDER / f"{role}.yaml").read_text())
    return {
        (group, resource, verb)
        for rule in document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


@dataclass(frozen=True, slots=True)
class User:
    """A service account whose rights a test chooses."""

    box: Box
    namespace: str
    client: Cluster

    def may(self, allowed: set[Right]) -> None:
        """Gives the account these rights and no others."""
        rules = [
            {"apiGroups": [group], "resources": [resource], "verbs": [verb]}
            for group, resource, verb in sorted(allowed)
        ]
        role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role", "metadata": {"name": "user"}}
        self.box.kubectl("apply", "-n", self.namespace, "-f", "-", input=json.dumps({**role, "rules": rules}))

    def k8sel(self, *words: str) -> Completed:
        """Runs a command with the account's token, which the test's KUBECONFIG has."""
        line = ["env", f"KUBECONFIG={os.environ['KUBECONFIG']}", sys.executable, "-m", "k8sel", *words]
        return self.box.run(*line, input=JOB, check=False)


@pytest.fixture
def user(cluster: Box, client: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> User:
    """An account without rights."""
    namespace = client.namespace
    cluster.kubectl("create", "serviceaccount", "user", "-n", namespace)
    cluster.kubectl(
        "create", "rolebinding", "user", "-n", namespace, "--role=user", f"--serviceaccount={namespace}:user"
    )
    token = cluster.kubectl("create", "token", "user", "-n", namespace).stdout.strip()
    return User(cluster, namespace, as_user(client, token, tmp_path, monkeypatch))


def test_a_submitter_can_do_all_that_a_viewer_can() -> None:
    assert rights("submitter") > rights("viewer")


def test_every_command_of_a_submitter(user: User) -> None:
    user.may(rights("submitter"))
    await_(lambda: not user.k8sel("apply", "--dry-run", "server", "-").returncode, what="the role")
    done = user.k8sel("apply", "--wait", "--timeout", "60", "-")
    assert (done.returncode, "PyTorchJob" in done.stdout) == (0, True), done.stderr
    for words in (["logs", "mine"], ["logs", "-F", "mine"]):
        assert "mine-master-0 | from the job\n" in user.k8sel(*words).stdout
    assert "Succeeded" in user.k8sel("status", "mine").stdout
    assert user.k8sel("receipt", "mine").returncode == 0
    assert pod_security(user.client) is None
    gone = user.k8sel("delete", "mine")
    assert (gone.returncode, gone.stdout.count("deleted")) == (0, 2), gone.stderr


def test_every_command_of_a_viewer(user: User, client: Cluster) -> None:
    """Without the optional rights as well: they only explain."""
    apply(client, [mpi_job("mine", "echo from the job")])
    assert wait(client, JobRef(name="mine"), timeout=90).result == "succeeded"
    user.may(rights("viewer") - EXPLAIN)
    await_(lambda: not user.k8sel("status", "mine").returncode, what="the role")
    for words in (["logs", "mine"], ["logs", "-F", "mine"]):
        assert user.k8sel(*words).stdout == "mine-launcher | from the job\n"
    assert user.k8sel("status", "mine").returncode == 0
    assert "nothing here starts a training" in user.k8sel("from", "-f", "mpijob/mine").stderr  # it has read the object
    refused = user.k8sel("delete", "mine")
    assert "Ask for a Role in namespace" in refused.stderr


def named(user: User, act: Callable[[Cluster], object], right: Right) -> bool:
    """Reports if the command's error asks for exactly this right."""
    group, resource, verb = right
    try:
        act(user.client)
    except ClusterError as error:
        return f"allows {verb} on {resource}{f'.{group}' if group else ''}" in str(error).splitlines()[0]
    return False


def reads(client: Cluster, name: str = "mine", follow: bool = True) -> None:
    logs(client, JobRef(name=name), follow=follow, on_line=lambda _: None)


MINE = JobRef(name="mine")
VIEWS: list[tuple[Right, Callable[[Cluster], object]]] = [
    ((JOBS, "pytorchjobs", "get"), lambda client: status(client, MINE)),
    ((JOBS, "pytorchjobs", "list"), lambda client: wait(client, MINE, timeout=5)),
    ((JOBS, "pytorchjobs", "watch"), lambda client: wait(client, MINE, timeout=5)),
    (("", "pods", "list"), lambda client: status(client, MINE)),
    (("", "pods", "watch"), lambda client: wait(client, MINE, timeout=5)),
    (("", "pods/log", "get"), lambda client: reads(client, follow=False)),
    ((JOBS, "mpijobs", "get"), lambda client: status(client, JobRef(name="ended"))),
    (("batch", "jobs", "get"), lambda client: status(client, JobRef(name="ended"))),
    (("", "pods", "get"), lambda client: reads(client, "ended")),
]


def test_a_viewer_is_told_which_verb_is_missing(user: User, client: Cluster) -> None:
    apply(client, [pytorch_job("mine", "echo one; sleep 600")])
    apply(client, [mpi_job("ended", "echo two")])
    assert wait(client, JobRef(name="ended"), timeout=90).result == "succeeded"
    await_(lambda: status(client, MINE).pods and status(client, MINE).pods[0].ready, what="its pod")
    for right, act in VIEWS:
        user.may(rights("viewer") - {right})
        await_(lambda act=act, right=right: named(user, act, right), timeout=20, what=f"the error about {right}")  # type: ignore[misc]


MADE = [config_map("new"), pytorch_job("new", "sleep 600")]
SUBMITS: list[tuple[Right, Callable[[Cluster], object]]] = [
    *(((JOBS, "pytorchjobs", verb), lambda client: apply(client, MADE)) for verb in ("get", "patch", "create")),
    *((("", "configmaps", verb), lambda client: apply(client, MADE)) for verb in ("get", "patch", "create")),
    ((JOBS, "pytorchjobs", "delete"), lambda client: delete(client, MINE)),
    (("", "configmaps", "list"), lambda client: delete(client, MINE)),
]


def test_a_submitter_is_told_which_verb_is_missing(user: User, client: Cluster) -> None:
    apply(client, [config_map("mine"), pytorch_job("mine", "sleep 600")])
    for right, act in SUBMITS:
        user.may(rights("submitter") - {right})
        await_(lambda act=act, right=right: named(user, act, right), timeout=20, what=f"the error about {right}")  # type: ignore[misc]
    last = ("", "configmaps", "delete")
    user.may(rights("submitter") - {last})
    assert named(user, lambda client: delete(client, MINE), last)

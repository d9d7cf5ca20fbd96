"""apply and delete against the real API server: all or nothing, once, and never against a running job's interest."""

from __future__ import annotations

import copy
import json

import pytest

from cluster.client import Cluster as Box
from cluster.client import await_
from cluster_client.manifests import config_map, container, mpi_job, pytorch_job
from k8sel.cluster import Cluster, JobRef, Options, Refusal, apply, delete, pod_security
from k8sel.errors import ClusterError

pytestmark = pytest.mark.cluster


def actions(client: Cluster, objects: list[dict[str, object]], options: Options | None = None) -> list[str]:
    return [applied.action for applied in apply(client, objects, options)]


def names(cluster: Box, namespace: str, plural: str) -> list[str]:
    return [each["metadata"]["name"] for each in cluster.get(plural, "-n", namespace)["items"]]


@pytest.mark.parametrize("job", [pytorch_job("twice"), mpi_job("twice")], ids=["PyTorchJob", "MPIJob"])
def test_the_second_time_nothing_changes(client: Cluster, job: dict[str, object]) -> None:
    objects = [config_map("twice"), job]
    assert actions(client, objects) == ["created", "created"]
    assert actions(client, objects) == ["unchanged", "unchanged"]


def test_a_dry_run_writes_nothing(client: Cluster, cluster: Box) -> None:
    assert actions(client, [config_map("dry"), pytorch_job("dry")], Options(dry_run=True)) == ["created", "created"]
    assert names(cluster, client.namespace, "pytorchjobs") == []
    assert "dry-k8sel-abc" not in names(cluster, client.namespace, "configmaps")


def test_the_config_map_goes_when_the_job_goes(client: Cluster, cluster: Box) -> None:
    apply(client, [config_map("owner"), pytorch_job("owner", "sleep 600")])
    owners = cluster.get("configmap", "owner-k8sel-abc", "-n", client.namespace)["metadata"]["ownerReferences"]
    assert [(owner["kind"], owner["name"]) for owner in owners] == [("PyTorchJob", "owner")]
    cluster.kubectl("delete", "pytorchjob", "owner", "-n", client.namespace)
    await_(lambda: "owner-k8sel-abc" not in names(cluster, client.namespace, "configmaps"), what="garbage collection")


def test_a_refused_job_leaves_nothing_behind(client: Cluster, cluster: Box) -> None:
    job = pytorch_job("refused")
    job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] = 2
    with pytest.raises(Refusal, match="must be 1") as caught:
        apply(client, [config_map("refused"), job])
    assert [problem.path for problem in caught.value.problems] == [("spec", "nodes")]
    assert "refused-k8sel-abc" not in names(cluster, client.namespace, "configmaps")


def test_a_changed_job_is_refused_with_the_fields_that_changed(client: Cluster) -> None:
    job = pytorch_job("changed", "sleep 600", workers=1)
    apply(client, [job])
    other = copy.deepcopy(job)
    for replica in other["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["containers"][0]["image"] = "other:1"
    with pytest.raises(Refusal, match="does not change a job's pods") as caught:
        apply(client, [other])
    (problem,) = caught.value.problems
    assert problem.path == ("spec", "image")
    assert problem.hint.startswith(f"run `k8sel delete -n {client.namespace} changed`")


def test_what_the_operator_reads_again_may_change(client: Cluster) -> None:
    job = pytorch_job("policy", "sleep 600")
    apply(client, [job])
    job["spec"]["runPolicy"]["activeDeadlineSeconds"] = 500
    job["metadata"]["labels"] = {"team": "a"}
    assert actions(client, [job]) == ["configured"]
    assert actions(client, [job]) == ["unchanged"]


def test_a_job_that_was_admitted_is_not_suspended_again(client: Cluster, cluster: Box) -> None:
    job = pytorch_job("queued", "sleep 600")
    job["spec"]["runPolicy"]["suspend"] = True
    apply(client, [job])
    assert actions(client, [job]) == ["unchanged"]
    assert _suspended(cluster, client) is True
    patch = json.dumps({"spec": {"runPolicy": {"suspend": False}}})
    cluster.kubectl("patch", "pytorchjob", "queued", "-n", client.namespace, "--type=merge", "-p", patch)
    assert actions(client, [job]) == ["unchanged"]
    assert _suspended(cluster, client) is False


def _suspended(cluster: Box, client: Cluster) -> object:
    return cluster.get("pytorchjob", "queued", "-n", client.namespace)["spec"]["runPolicy"]["suspend"]


def test_a_conflict_names_the_other_manager_and_force_takes_over(client: Cluster, cluster: Box) -> None:
    job = pytorch_job("conflict", "sleep 600")
    apply(client, [job])
    patch = json.dumps({"spec": {"runPolicy": {"cleanPodPolicy": "All"}}})
    cluster.kubectl("patch", "pytorchjob", "conflict", "-n", client.namespace, "--type=merge", "-p", patch)
    with pytest.raises(Refusal, match="kubectl-patch") as caught:
        apply(client, [job])
    (problem,) = caught.value.problems
    assert problem.path == ("spec", "policy", "cleanPodPolicy")
    assert "--force-conflicts" in problem.hint
    assert actions(client, [job], Options(force=True)) == ["configured"]


def test_a_job_that_is_going_is_not_applied_over(client: Cluster, cluster: Box) -> None:
    job = pytorch_job("going", "sleep 600")
    job["metadata"]["finalizers"] = ["k8sel.dev/test"]
    cluster.kubectl("apply", "-n", client.namespace, "-f", "-", input=json.dumps(job))
    delete(client, JobRef(name="going"))
    with pytest.raises(ClusterError, match="is being deleted"):
        apply(client, [pytorch_job("going")])
    patch = json.dumps({"metadata": {"finalizers": None}})
    cluster.kubectl("patch", "pytorchjob", "going", "-n", client.namespace, "--type=merge", "-p", patch)


def test_another_namespace_than_the_file_says(client: Cluster) -> None:
    job = pytorch_job("placed")
    job["metadata"]["namespace"] = client.namespace
    with pytest.raises(ClusterError, match="the option sets elsewhere"):
        apply(client, [job], Options(namespace="elsewhere"))


def test_delete_takes_the_job_and_what_came_with_it(client: Cluster, cluster: Box) -> None:
    apply(client, [config_map("gone"), mpi_job("gone", "sleep 600")])
    assert [each.kind for each in delete(client, JobRef(name="gone"))] == ["MPIJob", "ConfigMap"]
    assert "gone-k8sel-abc" not in names(cluster, client.namespace, "configmaps")
    await_(lambda: names(cluster, client.namespace, "mpijobs") == [], what="end of the job")
    assert delete(client, JobRef(name="gone"), missing_ok=True) == ()
    with pytest.raises(ClusterError, match="no PyTorchJob or MPIJob named gone"):
        delete(client, JobRef(name="gone"))


def test_pod_security_is_read_from_the_namespace(client: Cluster, cluster: Box) -> None:
    assert pod_security(client) is None
    with cluster.namespace(**{"pod-security.kubernetes.io/enforce": "restricted"}) as namespace:
        assert pod_security(client, namespace) == "restricted"


def test_warnings_of_the_server_are_handed_on(client: Cluster, cluster: Box) -> None:
    binding = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": client.namespace},
        "spec": {
            "policyName": client.namespace,
            "validationActions": ["Warn"],
            "matchResources": {"namespaceSelector": _only(client)},
        },
    }
    policy = {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": client.namespace},
        "spec": {
            "matchConstraints": {"resourceRules": [_JOBS]},
            "validations": [{"expression": "false", "message": "jobs are watched here"}],
        },
    }
    cluster.apply(policy, binding)
    try:
        warned = await_(lambda: _warnings(client), what="a warning")
        assert "jobs are watched here" in warned[0]
    finally:
        cluster.kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", client.namespace)


_JOBS = {"apiGroups": ["kubeflow.org"], "apiVersions": ["*"], "operations": ["CREATE"], "resources": ["pytorchjobs"]}


def _only(client: Cluster) -> dict[str, object]:
    return {"matchLabels": {"kubernetes.io/metadata.name": client.namespace}}


def _warnings(client: Cluster) -> tuple[str, ...]:
    job = pytorch_job("warned")
    container(job)["env"] = [{"name": "A", "value": "1"}]
    return apply(client, [job], Options(dry_run=True))[0].warnings

"""Tests refusals by the real API server, its policies and the operator's webhook, with the job file's line."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from cluster.client import Cluster as Box
from cluster.client import await_
from cluster_client.manifests import Object, container, mpi_job, pytorch_job
from k8sel import api
from k8sel.cluster import Applied, Cluster, Options, Refusal, apply

pytestmark = pytest.mark.cluster

JOB_FILE = """\
apiVersion: k8sel.dev/v1alpha1
kind: AcceleratedJob
metadata: {name: refused}
spec:
  image: elsewhere/train:1
  command: [python, train.py]
  launcher: torchrun
  nodes: 2
  processesPerNode: 2
  accelerator: {type: cuda, count: 2}
  sharedMemory: 1Gi
  env:
    - {name: DATA, value: /data}
    - name: MODE
      value: fast
  tolerations:
    - {key: team, operator: Exists}
"""
CONTAINERS = "object.spec.pytorchReplicaSpecs.Master.template.spec.containers"


@contextmanager
def policy(
    cluster: Box, namespace: str, validation: dict[str, Any], variables: Sequence[Object] = ()
) -> Iterator[None]:
    """A ValidatingAdmissionPolicy for the PyTorchJobs of one namespace."""
    rule = {"apiGroups": ["kubeflow.org"], "apiVersions": ["*"], "operations": ["*"], "resources": ["pytorchjobs"]}
    api_version, meta = "admissionregistration.k8s.io/v1", {"name": namespace}
    only = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
    cluster.apply(
        {
            "apiVersion": api_version,
            "kind": "ValidatingAdmissionPolicy",
            "metadata": meta,
            "spec": {
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [validation],
                "variables": variables,
            },
        },
        {
            "apiVersion": api_version,
            "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": meta,
            "spec": {
                "policyName": namespace,
                "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": only},
            },
        },
    )
    try:
        yield
    finally:
        cluster.kubectl("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", namespace)


def refusal(client: Cluster, text: str = JOB_FILE) -> str:
    """Returns the message of `k8sel apply` about a refused job file. A new policy needs a moment to work."""
    (job,) = api.load(text.encode(), "job.yaml")
    objects = api.render(api.plan(job))

    def refused() -> str:
        try:
            apply(client, objects, Options(job=job.document.data, dry_run=True))
        except Refusal as found:
            return str(found.located(job.document.locate))
        return ""

    return await_(refused, what="refusal")


def test_a_policy_is_shown_at_the_field_that_its_expression_reads(client: Cluster, cluster: Box) -> None:
    validation = {"expression": f"{CONTAINERS}.all(c, c.image.startsWith('reg/'))", "message": "images come from reg/"}
    with policy(cluster, client.namespace, validation):
        assert refusal(client).splitlines()[1] == (
            "job.yaml:5:10: spec.image: forbidden: "
            f"ValidatingAdmissionPolicy '{client.namespace}' with binding '{client.namespace}' denied request: "
            "images come from reg/."
        )


@pytest.mark.parametrize(
    ("expression", "place"),
    [
        (f"!{CONTAINERS}.exists(c, c.env.exists(e, e.name == 'MODE'))", "job.yaml:13:5: spec.env: "),
        ("object.spec.pytorchReplicaSpecs.Master.template.spec.tolerations.size() == 0", "spec.tolerations: "),
        ("object.metadata.name.startsWith('team-')", "job.yaml:3:18: metadata.name: "),
        ("has(object.metadata.labels) && 'team' in object.metadata.labels", "metadata.labels: "),
        ("object.spec.pytorchReplicaSpecs.Worker.replicas > 5", "job.yaml:8:10: spec.nodes: "),
        ("false", "job.yaml:3:18: "),
    ],
)
def test_a_policy_without_a_message_too(client: Cluster, cluster: Box, expression: str, place: str) -> None:
    with policy(cluster, client.namespace, {"expression": expression}):
        assert place in refusal(client).splitlines()[1]


def test_variables_and_message_expressions_are_followed(client: Cluster, cluster: Box) -> None:
    validation = {
        "expression": "variables.all.all(c, c.image.startsWith('reg/'))",
        "messageExpression": "'not ' + variables.all[0].image",
    }
    with policy(cluster, client.namespace, validation, variables=[{"name": "all", "expression": CONTAINERS}]):
        shown = refusal(client)
    assert "job.yaml:5:10: spec.image: forbidden: " in shown
    assert "not elsewhere/train:1" in shown


def problems(client: Cluster, job: dict[str, Any]) -> list[tuple[object, ...]]:
    with pytest.raises(Refusal) as caught:
        apply(client, [job])
    return [
        (problem.kind.value, ".".join(map(str, problem.path)), problem.message) for problem in caught.value.problems
    ]


def test_causes_of_the_schema(client: Cluster) -> None:
    job = mpi_job("enum")
    job["spec"]["mpiImplementation"] = "Other"
    ((kind, path, message),) = problems(client, job)
    assert (kind, path) == ("not supported", "spec.mpi.implementation")
    assert str(message).startswith('spec.mpiImplementation: Unsupported value: "Other": supported values: "OpenMPI"')


def test_a_bad_label_is_the_job_files_own_field(client: Cluster) -> None:
    job = pytorch_job("label")
    job["metadata"]["labels"] = {"a": "b c"}
    ((kind, path, message),) = problems(client, job)
    assert (kind, path) == ("invalid", "metadata.labels")
    assert str(message).startswith('Invalid value: "b c": a valid label')


def test_a_field_that_the_crd_does_not_have(client: Cluster) -> None:
    job = pytorch_job("unknown")
    job["spec"]["runPolicy"]["newField"] = 1
    assert problems(client, job) == [
        ("unknown field", "spec.policy.newField", "spec.runPolicy.newField: field not declared in schema")
    ]


def test_a_value_of_another_type(client: Cluster) -> None:
    job = pytorch_job("type")
    container(job)["env"] = [{"name": "A", "value": 1}]
    ((kind, path, message),) = problems(client, job)
    assert (kind, path) == ("invalid", "spec.env")
    assert 'env[name="A"].value: expected string' in str(message)


def test_the_operators_webhook(client: Cluster) -> None:
    job = pytorch_job("webhook")
    job["spec"]["pytorchReplicaSpecs"]["Master"]["replicas"] = 2
    ((kind, path, message),) = problems(client, job)
    assert (kind, path) == ("forbidden", "spec.nodes")
    assert str(message).endswith("spec.pytorchReplicaSpecs[Master].replicas: Forbidden: must be 1")


def test_what_render_makes_is_accepted_strictly(client: Cluster) -> None:
    (job,) = api.load(JOB_FILE.encode(), "job.yaml")
    found: tuple[Applied, ...] = apply(client, api.render(api.plan(job)), Options(dry_run=True))
    assert [(each.kind, each.action) for each in found] == [("ConfigMap", "created"), ("PyTorchJob", "created")]

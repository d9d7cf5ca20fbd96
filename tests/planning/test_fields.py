"""The table of fields: each row leads from the job file to the object and back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import yaml

import k8sel
from k8sel import api
from k8sel.adopt.line import Options
from k8sel.adopt.manifest import convert
from k8sel.cluster import mapping
from k8sel.entrypoint import protocol
from k8sel.errors import format_path
from k8sel.facts import fields, names
from k8sel.facts.fields import FIELDS, Field
from k8sel.facts.kinds import JOB_KINDS
from k8sel.facts.platforms import PLATFORMS
from k8sel.jobfile import schema, validate
from k8sel.jobfile.defaults import default
from planning.jobs import emit, job

POD = "template.spec"
CONTAINER = f"{POD}.containers[0]"
# A field that is copied, with a value for it.
VALUES: dict[str, Any] = {
    "spec.scheduling.schedulerName": "volcano",
    "spec.scheduling.priorityClassName": "high",
    "spec.runtimeClassName": "nvidia",
    "spec.serviceAccountName": "trainer",
    "spec.imagePullSecrets": [{"name": "registry"}],
    "spec.nodeSelector": {"pool": "train"},
    "spec.imagePullPolicy": "Never",
    "spec.workingDir": "/work",
}
COPIED = [
    (f"{around}.{name}", FIELDS[place][name])
    for place, around in (("pod", POD), ("container", CONTAINER))
    for name in fields.copied(place)
]
ROWS = [row for rows in FIELDS.values() for row in rows.values() if row.job]


def spec(row: Field, **others: object) -> dict[str, Any]:
    """A job file's spec with a value for the row's field."""
    made: Any = VALUES[row.job]
    for name in reversed(row.path[1:]):
        made = {name: made}
    return {**made, **others}


def at(data: object, path: str) -> Any:  # noqa: ANN401
    """Returns the value at a path such as ``spec.containers[0].image``."""
    found: Any = data
    for part in mapping.parse(path):
        found = found[part]
    return found


def test_a_row_is_closed() -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `colour`"):
        msgspec.convert({"job": "spec.image", "colour": "green"}, Field)


@pytest.mark.parametrize("path", sorted({row.job for row in ROWS}))
def test_a_row_names_a_field_of_the_job_file(path: str) -> None:
    document = schema.schema()
    part: dict[str, Any] = document
    for name in path.split("."):
        while "$ref" in part:
            part = document["$defs"][part["$ref"].rpartition("/")[2]]
        part = part["properties"][name]


def test_each_field_of_the_job_file_says_what_docker_does() -> None:
    unsaid = [row.job for row in ROWS if row.docker is None]
    words = {path: {row.docker for row in ROWS if row.job == path} for path in {row.job for row in ROWS}}

    assert unsaid == []
    assert {path: said for path, said in words.items() if len(said) > 1} == {}


@pytest.mark.parametrize(("path", "row"), COPIED, ids=[path for path, _ in COPIED])
@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_a_copied_field_arrives_in_each_pod(path: str, row: Field, launcher: str) -> None:
    made = emit({"type": "cuda"}, **spec(row, launcher=launcher, nodes=2))
    replicas = made["spec"].get("pytorchReplicaSpecs") or made["spec"]["mpiReplicaSpecs"]

    assert [at(replica, path) for replica in replicas.values()] == [VALUES[row.job]] * 2


@pytest.mark.parametrize(("path", "row"), COPIED, ids=[path for path, _ in COPIED])
def test_a_cause_in_a_copied_field_leads_to_the_job_file(path: str, row: Field) -> None:
    assert format_path(mapping.to_field(f"spec.pytorchReplicaSpecs[Master].{path}") or ()) == row.job


@pytest.mark.parametrize(("path", "row"), COPIED, ids=[path for path, _ in COPIED])
def test_a_manifests_field_becomes_the_job_files(path: str, row: Field) -> None:
    container = {"name": "train", "image": "img", "command": ["python", "train.py"]}
    template = {"metadata": {"name": "job"}, "spec": {"containers": [container]}}
    around, _, name = path.rpartition(".")
    part: Any = at({"template": template}, around)
    part[name] = VALUES[row.job]
    made, _ = convert(json.dumps({"apiVersion": "v1", "kind": "Pod", **template}), Options())

    assert at(yaml.safe_load(made), row.job) == VALUES[row.job]


@pytest.mark.parametrize("row", [row for _, row in COPIED], ids=[row.job for _, row in COPIED])
def test_docker_warns_of_the_fields_that_it_ignores(row: Field) -> None:
    found = validate.validate(default(job({"type": "cpu"}, spec(row)), PLATFORMS["docker"]), PLATFORMS["docker"])

    assert [problem for problem in found if format_path(problem.path) == row.job] == (
        [*found] if row.docker == "ignored" else []
    )


POLICY = {"cleanPodPolicy": "None", "ttlSecondsAfterFinished": 60, "activeDeadlineSeconds": 60, "backoffLimit": 3}
FILE = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": "job"}}


def rendered(launcher: str, metadata: dict[str, Any], policy: dict[str, Any]) -> tuple[str, Any]:
    """The hash in the annotation, and the replicas of the job."""
    made = {"image": "img", "command": ["true"], "launcher": launcher, "accelerator": {"type": "cuda"}}
    policies = {"policy": policy} if policy else {}
    (job,) = k8sel.load({**FILE, "metadata": {"name": "job", **metadata}, "spec": {**made, **policies}})
    *_, found = api.render(api.plan(job))
    replicas = found["spec"].get("pytorchReplicaSpecs") or found["spec"]["mpiReplicaSpecs"]
    return found["metadata"]["annotations"][names.ANNOTATION_JOB_FILE], replicas


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
@pytest.mark.parametrize("name", POLICY)
def test_a_field_of_the_object_alone_changes_no_pod(name: str, launcher: str) -> None:
    """The hash stands in the pods, so it may change only with a field that the operator does not read again."""
    kind = JOB_KINDS["MPIJob" if launcher == "mpirun" else "PyTorchJob"]
    plain, changed = rendered(launcher, {}, {}), rendered(launcher, {}, {name: POLICY[name]})

    assert (plain == changed) is (FIELDS["runPolicy"][name].object and name in kind.mutable)


@pytest.mark.parametrize("launcher", ["torchrun", "mpirun"])
def test_an_annotation_changes_no_pod_and_a_label_does(launcher: str) -> None:
    plain = rendered(launcher, {}, {})

    assert rendered(launcher, {"annotations": {"who": "me"}}, {}) == plain
    assert rendered(launcher, {"annotations": {}}, {}) == plain
    assert rendered(launcher, {"labels": {"who": "me"}}, {}) != plain


def test_each_field_of_the_expectation_leads_to_the_job_file() -> None:
    fields_of_it = {protocol._camel(name) for name in protocol.Expectation.__annotations__}

    assert set(FIELDS["expectation"]) == fields_of_it - {"job", "jobFile"}

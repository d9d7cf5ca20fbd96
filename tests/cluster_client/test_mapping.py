"""The way back from a manifest to the job file: a table. Needs no cluster."""

from __future__ import annotations

import pytest

from k8sel import api
from k8sel.cluster import mapping, policy
from k8sel.errors import format_path

POD = "spec.pytorchReplicaSpecs[Master].template.spec"
BOX = f"{POD}.containers[0]"
TABLE = [
    ("metadata.name", "metadata.name"),
    ("metadata.labels", "metadata.labels"),
    ('metadata.labels["a.b/c"]', "metadata.labels.a.b/c"),
    ("metadata.labels[kueue.x-k8s.io/queue-name]", "spec.scheduling.queue"),
    ("spec.nprocPerNode", "spec.processesPerNode"),
    ("spec.slotsPerWorker", "spec.processesPerNode"),
    ("spec.mpiImplementation", "spec.mpi.implementation"),
    ("spec.sshAuthMountPath", "spec.mpi.sshAuthMountPath"),
    ("spec.runPolicy.suspend", "spec.scheduling.queue"),
    ("spec.runPolicy.schedulingPolicy.minAvailable", "spec.scheduling.gang"),
    ("spec.runPolicy.schedulingPolicy.priorityClass", "spec.scheduling.priorityClassName"),
    ("spec.runPolicy.backoffLimit", "spec.policy.backoffLimit"),
    (".spec.runPolicy.cleanPodPolicy", "spec.policy.cleanPodPolicy"),
    ("spec.pytorchReplicaSpecs[Worker].replicas", "spec.nodes"),
    ("spec.mpiReplicaSpecs['Launcher'].replicas", "spec.nodes"),
    (f"{POD}.tolerations[1].key", "spec.tolerations[1].key"),
    (f"{POD}.tolerations[*].key", "spec.tolerations"),
    (f"{POD}.nodeSelector", "spec.nodeSelector"),
    (f"{POD}.securityContext.runAsUser", "spec.podSecurityContext.runAsUser"),
    (f"{POD}.priorityClassName", "spec.scheduling.priorityClassName"),
    (f"{BOX}.image", "spec.image"),
    ('.spec.pytorchReplicaSpecs.Master.template.spec.containers[name="pytorch"].image', "spec.image"),
    (f"{BOX}.args[2]", "spec.command"),
    (f"{BOX}.securityContext.capabilities", "spec.securityContext.capabilities"),
    (f"{BOX}.resources.limits.memory", "spec.resources.memory"),
    (f"{BOX}.resources.limits[example.com/gpu]", "spec.resources.example.com/gpu"),
    ("spec.unheard", None),
    (f"{BOX}", None),
    ("<nil>", None),
    ("", None),
]


@pytest.mark.parametrize(("manifest_path", "field"), TABLE, ids=[path for path, _ in TABLE])
def test_a_manifests_path_leads_to_the_job_files_field(manifest_path: str, field: str | None) -> None:
    found = mapping.to_field(manifest_path)
    assert (None if found is None else format_path(found)) == field


JOB_FILE = """\
apiVersion: k8sel.dev/v1alpha1
kind: AcceleratedJob
metadata: {name: mapped}
spec:
  image: reg/train:1
  command: [python, train.py]
  launcher: torchrun
  processesPerNode: 2
  accelerator: {type: cuda, count: 2, product: [NVIDIA-H100-80GB-HBM3]}
  sharedMemory: 1Gi
  resources: {cpu: 4}
  env: [{name: DATA, value: /data}, {name: MODE, value: fast}]
  volumes: [{name: data, emptyDir: {}}]
  volumeMounts: [{name: data, mountPath: /data}]
"""


def in_file(manifest_path: str) -> str:
    """Returns the job file's path for a path of the rendered manifest; ``{MODE}`` and the like are list indexes."""
    (job,) = api.load(JOB_FILE.encode(), "job.yaml")
    manifest = api.render(api.plan(job))[-1]
    found = mapping.to_field(manifest_path, manifest=manifest, job=job.document.data)
    return format_path(found or ())


def index(of: str, name: str) -> int:
    """Returns the index of this name in a rendered list."""
    (job,) = api.load(JOB_FILE.encode(), "job.yaml")
    pod = api.render(api.plan(job))[-1]["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]
    entries = pod[of] if of in pod else pod["containers"][0][of]
    return [entry["name"] for entry in entries].index(name)


def test_entries_of_lists_are_found_by_name() -> None:
    assert in_file(f"{BOX}.env[{index('env', 'MODE')}].value") == "spec.env[1].value"
    assert in_file(f'{BOX}.env[name="DATA"].value') == "spec.env[0].value"
    assert in_file(f"{POD}.volumes[{index('volumes', 'data')}].emptyDir") == "spec.volumes[0].emptyDir"


def test_what_the_file_says_another_way_is_found_there() -> None:
    assert in_file(f"{POD}.affinity.nodeAffinity") == "spec.accelerator.product"
    assert in_file(f"{BOX}.resources.limits[nvidia.com/gpu]") == "spec.accelerator.count"
    assert in_file(f"{POD}.tolerations[0]") == "spec.accelerator"
    assert in_file(f"{BOX}.resources.limits.cpu") == "spec.resources.cpu"


C = "object.spec.pytorchReplicaSpecs.Master.template.spec.containers"
CEL = [
    ("object.metadata.name != 'a'", ["metadata.name"]),
    (f"{C}.all(c, c.image.startsWith('reg/'))", [C, f"{C}[*].image"]),
    (f"{C}.all(c, c.env.all(e, e.name != 'A'))", [C, f"{C}[*].env", f"{C}[*].env[*].name"]),
    (
        "has(object.spec.runPolicy) && object.spec.?runPolicy.suspend == true",
        ["spec.runPolicy", "spec.runPolicy.suspend"],
    ),
    ("object.spec.pytorchReplicaSpecs['Worker'].replicas < 9", ["spec.pytorchReplicaSpecs['Worker'].replicas"]),
    ("params.limit > 3 && request.name == 'object.x'", []),
]


@pytest.mark.parametrize(("expression", "paths"), CEL, ids=[expression for expression, _ in CEL])
def test_the_paths_that_an_expression_reads(expression: str, paths: list[str]) -> None:
    assert list(policy.paths_in(expression)) == [path.removeprefix("object.") for path in paths]


def test_anything_is_parsed_without_an_error() -> None:
    for text in ("[", "]", "a[", "a[]", "a['", "..", "a[-1]", "spec.a[b=c]", "\x00", "spec.[0][1]"):
        mapping.to_field(text)

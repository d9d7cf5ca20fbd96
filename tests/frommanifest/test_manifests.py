"""A manifest as a job file: the same nodes, processes and devices, and every rest is named."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from fromline.guides import LINES, QA
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k8sel import api
from k8sel.adopt import line
from k8sel.adopt.line import Options
from k8sel.adopt.manifest import convert
from k8sel.audit import audit
from k8sel.errors import SpecError
from k8sel.jobfile.load import load
from k8sel.planning.plan import JobPlan

CASES = Path(__file__).parents[1] / "audit" / "cases"
MANIFESTS = sorted(CASES.glob("*/*.yaml"))


def manifest(case: str) -> str:
    return (CASES / case / "clean.yaml").read_text()


def planned(text: str) -> JobPlan:
    (job,) = load(convert(text, Options())[0].encode(), "job.yaml")
    return api.plan(job)


def said(text: str) -> str:
    return "\n".join(map(str, convert(text, Options())[1]))


def test_k8sels_own_object_leads_to_its_job_file() -> None:
    own = manifest("no-shared-memory").replace("metadata:\n", "metadata:\n  labels: {k8sel.dev/job: own}\n", 1)
    with pytest.raises(
        SpecError, match=r"this PyTorchJob was made by k8sel, from a job file\. Hint: use that job file"
    ):
        convert(own, Options())


@pytest.mark.parametrize(
    ("case", "launcher", "nodes", "processes", "resource", "count", "positions"),
    [
        ("no-shared-memory", "torchrun", 4, 2, "nvidia.com/gpu", 2, (0, 1)),
        ("nproc-per-node-auto", "torchrun", 4, 2, None, 0, ()),
        ("python-many-ranks", "python", 4, 1, "nvidia.com/gpu", 1, (0,)),
        ("accelerate-reads-pet", "accelerate", 4, 2, "nvidia.com/gpu", 2, (0, 1)),
        ("deepspeed-alone", "deepspeed", 4, 2, "nvidia.com/gpu", 2, (0, 1)),
        ("openmpi-as-root", "mpirun", 2, 2, "nvidia.com/gpu", 2, (0, 1)),
        ("mpirun-is-a-script", "mpirun", 2, 2, None, 0, ()),
        ("job-not-indexed", "torchrun", 4, 8, "amd.com/gpu", 8, tuple(range(8))),
        ("mask-beyond-count", "python", 1, 1, "nvidia.com/gpu", 2, (1, 0)),
        ("mask-has-no-order", "python", 1, 1, "gpu.intel.com/i915", 3, (0, 2)),
        ("mask-numbers-mig", "python", 1, 1, "nvidia.com/mig-3g.40gb", 1, (0,)),
        ("exposure-without-request", "python", 1, 1, None, 0, ()),
    ],
)
def test_a_manifest_keeps_its_processes_and_devices(
    case: str, launcher: str, nodes: int, processes: int, resource: str | None, count: int, positions: tuple[int, ...]
) -> None:
    plan = planned(manifest(case))

    assert (plan.launcher, len(plan.nodes), plan.processes_per_node) == (launcher, nodes, processes)
    assert (plan.devices.resource_name, plan.devices.count, plan.devices.positions) == (resource, count, positions)


def test_a_pytorch_job_is_all_there() -> None:
    made, notes = convert(manifest("no-shared-memory"), Options())

    assert notes == []
    assert yaml.safe_load(made) == {
        "apiVersion": "k8sel.dev/v1alpha1",
        "kind": "AcceleratedJob",
        "metadata": {"name": "finetune-7b", "namespace": "team-a"},
        "spec": {
            "image": "registry.example/team-a/finetune:2024-11",
            "command": ["python", "train.py", "--config", "configs/7b.yaml"],
            "launcher": "torchrun",
            "nodes": 4,
            "accelerator": {"type": "cuda", "count": 2},
            "resources": {"cpu": "16", "memory": "128Gi"},
            "sharedMemory": "32Gi",
            "env": [{"name": "NCCL_DEBUG", "value": "WARN"}],
            "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "datasets"}}],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}],
            "policy": {"cleanPodPolicy": "Running"},
        },
    }


@pytest.mark.parametrize(
    ("case", "old", "new", "words"),
    [
        (
            "no-shared-memory",
            "  namespace: team-a",
            "  annotations: {a: b}\n  finalizers: [x]",
            "finalizers is not",
        ),
        (
            "no-shared-memory",
            "spec:\n  nproc",
            "spec:\n  elasticPolicy: {minReplicas: 1}\n  nproc",
            "elasticPolicy is not",
        ),
        ("no-shared-memory", "spec:\n  nproc", "spec:\n  labels: {}\n  nproc", "spec.labels is not"),
        (
            "no-shared-memory",
            "          containers:",
            "          initContainers: []\n          containers:",
            "initContainers is not",
        ),
        (
            "no-shared-memory",
            "          containers:",
            "          containers:\n          - name: side",
            "container side",
        ),
        ("no-shared-memory", "value: WARN", "value: INFO", "Worker's template differs from Master's"),
        ("mask-twice", "    env:", "    envFrom: []\n    env:", ""),
        ("mask-twice", "    env:", "    envFrom: [{secretRef: {name: x}}]\n    env:", "envFrom is not carried over"),
        (
            "mask-twice",
            "    env:",
            "    env:\n    - {name: NVIDIA_VISIBLE_DEVICES, value: '0'}",
            "it would override",
        ),
        ("mask-twice", "    env:", "    lifecycle: {}\n    env:", "lifecycle is not carried over"),
    ],
)
def test_what_a_job_file_does_not_say_is_named(case: str, old: str, new: str, words: str) -> None:
    text = manifest(case).replace(old, new, 1)

    assert old in manifest(case)
    assert words in said(text)


def test_the_selector_that_a_cluster_writes_is_not_reported() -> None:
    """As `kubectl get job -o yaml` prints it; a name of one letter is reported like any other."""
    text = manifest("job-not-indexed").replace("  completions: 4\n", "  completions: 4\n  selector: {}\n  s: 1\n", 1)

    assert re.findall(r"(spec\.\S+) is not carried over", said(text)) == ["spec.s"]


@pytest.mark.parametrize(
    ("case", "old", "new", "words"),
    [
        (
            "mask-twice",
            "command: [python, train.py",
            "args: [--x",
            "the manifest does not name the program that the image starts",
        ),
        ("mask-twice", "gpu: 2", 'gpu: "0.5"', "nvidia.com/gpu: 0.5 is not a number of devices"),
        ("mask-twice", "gpu: 2", "gpu: 2\n        amd.com/gpu: 1", "amd.com/gpu: a job has one type of device"),
        ("mask-twice", "train.py", "$(SCRIPT)", 'line knows "$(SCRIPT)"'),
        (
            "exposure-without-request",
            "value: void",
            "value: all",
            "NVIDIA_VISIBLE_DEVICES=all: the manifest does not give",
        ),
        (
            "nproc-per-node-auto",
            'nprocPerNode: "2"',
            "nprocPerNode: auto",
            "the number of processes per node",
        ),
        ("mask-twice", "kind: Pod", "kind: Service", "no PyTorchJob, MPIJob, Job, Pod is in this file"),
        ("mask-twice", "containers:", "boxes:", "Pod has no container. Hint: "),
    ],
)
def test_a_manifest_is_refused_with_the_reason(case: str, old: str, new: str, words: str) -> None:
    text = manifest(case).replace(old, new, 1)

    with pytest.raises(SpecError) as refused:
        convert(text, Options())
    assert words in str(refused.value)


def test_what_a_container_fills_in_is_filled_in() -> None:
    text = manifest("mask-twice").replace("train.py", "'$(LOG_LEVEL)', '$$(X)', $HOME", 1)

    assert yaml.safe_load(convert(text, Options())[0])["spec"]["command"][1:4] == ["info", "$(X)", "$HOME"]


def test_an_mpi_jobs_backend_and_binding_are_the_jobs() -> None:
    """By the MPI that the object names, whichever the line could be of; OMP_NUM_THREADS and one worker are 16 cores."""
    text = manifest("mpirun-is-a-script").replace(
        "-genvlist, CCL_WORKER_COUNT, python, train.py",
        "-genv, OMP_NUM_THREADS=15, -bind-to, 'core:16', python, train.py, --ddp_backend, ccl",
    )
    spec = yaml.safe_load(convert(text.replace("Intel", "MPICH"), Options())[0])["spec"]

    assert (spec["backend"], spec["ccl"], spec["cpu"]) == ("ccl", {"workers": 1}, {"threadsPerProcess": 15})
    assert spec["mpi"] == {"implementation": "MPICH", "binding": "core"}
    assert "env" not in spec


def test_the_guides_line_in_an_mpi_job_is_clean_and_leads_to_the_same_job() -> None:
    """Two nodes of two processes, 23 threads and one worker each: 48 CPUs."""
    words = ["-f", "/etc/mpi/hostfile", "-n", "4", "-ppn", "2", "-genv", "OMP_NUM_THREADS=23", "python3", *QA, "--bf16"]
    command = [*["mpiexec.hydra", "-genvlist", "CCL_WORKER_COUNT"], *words]
    text = re.sub(r"command: .*", f"command: {json.dumps(command)}", manifest("mpirun-is-a-script"), count=1)
    text = text.replace('cpu: "32"', 'cpu: "48"')
    plan, by_line = planned(text), line.convert(LINES["CPUs of two nodes"].text, Options())[0]
    same = ("command", "launcher", "nodes", "processesPerNode", "backend", "ccl", "cpu", "mpi")
    mine, other = (yaml.safe_load(made)["spec"] for made in (convert(text, Options())[0], by_line))

    assert {finding.trap.id for finding in audit(text.encode(), "job.yaml")[0]} == {"dropped-option"}
    assert {name: mine[name] for name in same} == {name: other[name] for name in same}
    assert (plan.world_size, plan.processes_per_node) == (4, 2)


def test_what_a_container_sources_is_the_entrypoints_to_read() -> None:
    text = manifest("mpirun-is-a-script").replace(
        "[mpiexec.hydra, -n,", "[bash, -c, source /opt/intel/oneapi/setvars.sh && exec mpiexec.hydra -n 4 train, x, -n,"
    )

    assert "note: source is not carried over: the entrypoint reads it itself" in said(text)


def test_a_pytorch_jobs_backend_is_the_jobs() -> None:
    text = manifest("torchrun-one-thread").replace("train.py,", "train.py, --ddp_backend=ccl,")
    text = text.replace(
        "- name: OMP_NUM_THREADS", "- {name: CCL_WORKER_COUNT, value: '2'}\n            - name: OMP_NUM_THREADS"
    )
    spec = yaml.safe_load(convert(text, Options())[0])["spec"]

    assert (spec["launcher"], spec["backend"], spec["ccl"]) == ("torchrun", "ccl", {"workers": 2})


def test_a_value_that_repeats_a_default_stays() -> None:
    given = yaml.safe_load(manifest("no-shared-memory"))
    given["spec"]["runPolicy"] = {"cleanPodPolicy": "Running", "backoffLimit": 0}
    made = yaml.safe_load(convert(yaml.safe_dump(given), Options())[0])

    assert made["spec"]["policy"] == {"cleanPodPolicy": "Running", "backoffLimit": 0}


def test_variables_that_are_read_elsewhere_stay() -> None:
    source = {"secretKeyRef": {"name": "hub", "key": "token"}}
    entry = f"    env:\n    - {json.dumps({'name': 'TOKEN', 'valueFrom': source})}\n"
    made, _ = convert(manifest("mask-twice").replace("    env:\n", entry, 1), Options())

    assert {"name": "TOKEN", "valueFrom": source} in yaml.safe_load(made)["spec"]["env"]


def test_devices_of_the_hosts_are_the_hosts() -> None:
    text = manifest("exposure-without-request").replace("value: void", "value: '2,0'")
    made, notes = convert(text, Options())

    assert yaml.safe_load(made)["spec"]["accelerator"] == {
        "type": "cuda",
        "count": 3,
        "devices": [0, 2],
        "allocation": "host",
    }
    assert "NVIDIA_VISIBLE_DEVICES is a set" in "\n".join(map(str, notes))


def test_a_resource_that_ended_becomes_the_one_that_is_served() -> None:
    text = manifest("no-shared-memory").replace("nvidia.com/gpu", "aws.amazon.com/neurondevice")
    text = text.replace('--nproc-per-node, "2"', '--nproc-per-node, "4"')  # one for each core

    assert "resource" not in yaml.safe_load(convert(text, Options())[0])["spec"]["accelerator"]
    assert "no plugin serves aws.amazon.com/neurondevice any longer" in said(text)


def test_modules_of_a_host_are_the_hosts_in_their_order() -> None:
    text = manifest("exposure-without-request").replace("value: void", "value: '2,0'")
    made, _ = convert(text.replace("NVIDIA_VISIBLE_DEVICES", "HABANA_VISIBLE_MODULES"), Options())

    accelerator = yaml.safe_load(made)["spec"]["accelerator"]
    assert (accelerator["type"], accelerator["devices"], accelerator["allocation"]) == ("hpu", [2, 0], "host")


def test_device_indices_of_a_host_that_counts_modules_are_refused() -> None:
    text = manifest("exposure-without-request").replace("value: void", "value: '2,0'")

    with pytest.raises(SpecError, match="HABANA_VISIBLE_DEVICES and allocation: host number devices differently"):
        convert(text.replace("NVIDIA_VISIBLE_DEVICES", "HABANA_VISIBLE_DEVICES"), Options())


def test_an_object_of_a_cluster_is_one_too() -> None:
    """As `kubectl get -o yaml` prints it."""
    kept = "  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: '{}'\n  uid: 1f\n  generation: 1\n"
    text = manifest("no-shared-memory").replace("  namespace: team-a\n", f"  namespace: team-a\n{kept}")
    status = "status:\n  conditions: [{type: Running, status: 'True'}]\n"

    assert convert(text + status, Options()) == convert(manifest("no-shared-memory"), Options())


def test_each_object_becomes_a_job() -> None:
    made, _ = convert(f"{manifest('mask-twice')}---\n{manifest('openmpi-as-root')}", Options())

    assert [job.file.metadata.name for job in load(made.encode(), "jobs.yaml")] == ["try-out", "allreduce"]


ODD: list[Any] = [
    None,
    True,
    0,
    -1,
    3.5,
    "",
    "x",
    "auto",
    "$(RANK)",
    [],
    [1],
    ["", None],
    {},
    {"a": 1},
    "0,0",
    "\0",
    "é" * 9,
]


def _paths(data: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [below for key, value in items for below in ((*path, key), *_paths(value, (*path, key)))]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(MANIFESTS), st.data())
def test_a_manifest_of_any_form_is_a_valid_job_file_or_is_refused(case: Path, data: st.DataObject) -> None:
    changed = copy.deepcopy(yaml.safe_load(case.read_text()))
    for _ in range(data.draw(st.integers(0, 3))):
        *above, last = data.draw(st.sampled_from(_paths(changed)))
        part: Any = changed
        for key in above:
            part = part[key]
        part[last] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
    try:
        made, _ = convert(json.dumps(changed, indent=1), Options())
    except SpecError:
        return
    assert len(load(made.encode(), "job.yaml")) == 1

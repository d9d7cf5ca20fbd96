"""Writes the gallery from its job files: `python manifests/generate.py`. A test compares them.

NAME/pytorchjob.yaml or mpijob.yaml    the job's object, as `k8sel render` prints it
NAME/kustomization.yaml, README.md     its kustomization, and its purpose
README.md                              the list of all folders; rbac/ is written by hand
../charts/k8sel/files/                 kustomization.yaml and names.yaml: the chart's copy of the entrypoint as a
                                       kustomize component, which every folder uses; it names the ConfigMap by its hash
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any, NamedTuple

from k8sel import api
from k8sel.bundle import files as brought
from k8sel.facts import names
from k8sel.facts.kinds import JOB_KINDS
from k8sel.jobfile import yamlio
from k8sel.planning.plan import JobPlan

HERE = Path(__file__).parent
JOB = "job.yaml"
COMPONENT = "../charts/k8sel/files"  # neither Helm nor kustomize reads a file outside its own folder
CONFIG_MAP = "k8sel-entrypoint"
POD_TEMPLATES = {  # the paths of the ConfigMap's name: kustomize itself knows only those of Kubernetes' own kinds
    "PyTorchJob": ["spec/pytorchReplicaSpecs/Master", "spec/pytorchReplicaSpecs/Worker"],
    "MPIJob": ["spec/mpiReplicaSpecs/Launcher", "spec/mpiReplicaSpecs/Worker"],
}


class Situation(NamedTuple):
    """A user's purpose, in words; the job file gives everything else."""

    purpose: str
    needs: str  # in addition to the operator and the devices
    change: str


SITUATIONS = {
    "one-node": Situation(
        "One node, four GPUs, one process each (torchrun, DistributedDataParallel).",
        "an image with torch and the program",
        "`count` for more GPUs of the node",
    ),
    "ordered-subset": Situation(
        "Chosen GPUs of a node in a chosen order: local rank 0 gets the third, local rank 1 the first.",
        "an image with torch and the program",
        "`devices`: positions in what the node hands over, in the order of the ranks; `count` above the largest",
    ),
    "two-nodes": Situation(
        "Two nodes of four GPUs, eight processes (torchrun).",
        "an image with torch and the program, nodes that reach each other",
        "`nodes` and `count`",
    ),
    "mpi-on-cpu": Situation(
        "An MPI program on the CPUs of two nodes, four ranks each, four threads a rank (Open MPI).",
        "an image with Open MPI, sshd and the program",
        "`processesPerNode` and `threadsPerProcess`, whose product is the node's `cpu`; the MPI's `implementation`",
    ),
    "intel-xpu": Situation(
        "Two Intel GPUs of one node, one process each.",
        "an image with torch for XPU",
        "`resource: gpu.intel.com/xe` where the driver is xe; `isolation: process` for an order of your own",
    ),
    "gaudi": Situation(
        "Eight Gaudi modules of one node, one process each, with the huge pages of the vendor's guide.",
        "an image with torch for Gaudi, and huge pages on the node",
        "`count`, with memory and huge pages in proportion",
    ),
    "amd": Situation(
        "Eight AMD GPUs of one node, one process each.",
        "an image with torch for ROCm",
        "`count`, or `devices` for an order",
    ),
    "mig": Situation(
        "One slice of a partitioned NVIDIA GPU (MIG) for one process.",
        "a node with MIG in the plugin's mixed strategy, an image with the program",
        "`resource`: another profile, as `kubectl describe node` names it",
    ),
    "no-accelerator": Situation(
        "Four processes on one node's CPUs, as a user that is not root; no device, and every vendor's hidden.",
        "an image with torch and the program, which runs as any user",
        "`processesPerNode` and `threadsPerProcess`, whose product is the node's `resources.cpu`",
    ),
    "accelerate": Situation(
        "Hugging Face's `accelerate launch` on two nodes of four GPUs, with data from a claim.",
        "an image with accelerate, a PersistentVolumeClaim named data that two nodes can mount",
        "`claimName`, and the program's own options in `command`",
    ),
    "deepspeed": Situation(
        "DeepSpeed on two nodes of four GPUs; torchrun starts it, so that every process has the device of its rank.",
        "an image with deepspeed and zero3.json beside the program, which reads LOCAL_RANK",
        "`nodes` and `count`; what ZeRO does stands in zero3.json",
    ),
    "queue": Situation(
        "A job that waits in Kueue's queue until all of its nodes can start.",
        "Kueue with a LocalQueue named team-queue in the namespace, an image with torch and the program",
        "`queue`, and the limits in `policy`",
    ),
}


def files() -> dict[str, bytes]:
    """Returns file name -> content. charts/generate.py writes the entrypoint itself."""
    written = {"README.md": _index()}
    written.update(_component())
    for name in SITUATIONS:
        for file, text in _folder(name).items():
            written[f"{name}/{file}"] = text
    return {name: text.encode() for name, text in written.items()}


def _folder(name: str) -> dict[str, str]:
    (job,) = api.load((HERE / name / JOB).read_bytes(), f"{name}/{JOB}")
    plan = api.plan(job)
    (item,) = [each for each in api.render(plan) if each["kind"] != "ConfigMap"]
    file = f"{plan.target.lower()}.yaml"
    return {
        file: yamlio.dump([_renamed(item)]),
        "kustomization.yaml": yamlio.dump(
            [_kustomization("Kustomization", resources=[file], components=[f"../{COMPONENT}"])]
        ),
        "README.md": _page(name, plan),
    }


def _renamed(part: Any) -> Any:  # noqa: ANN401
    """Returns the object with the component's name for the ConfigMap, which kustomize completes."""
    if isinstance(part, list):
        return [_renamed(each) for each in part]
    if not isinstance(part, dict):
        return part
    made = {key: _renamed(value) for key, value in part.items()}
    return {**made, "configMap": {"name": CONFIG_MAP}} if made.get("name") == "k8sel" and "configMap" in made else made


def _component() -> dict[str, str]:
    """Returns the files of the component: its ConfigMap, and the fields where a job names it."""
    generator = {
        "name": CONFIG_MAP,
        "files": [f"{brought.SCRIPT}=entrypoint.sh", brought.ARCHIVE],
        "options": {"immutable": True, "labels": {names.LABEL_MANAGED_BY: names.MANAGER}},
    }
    fields = [
        {"path": f"{template}/template/spec/volumes/configMap/name", "kind": kind}
        for kind, templates in POD_TEMPLATES.items()
        for template in templates
    ]
    reference = {"nameReference": [{"kind": "ConfigMap", "version": "v1", "fieldSpecs": fields}]}
    api_version = "kustomize.config.k8s.io/v1alpha1"
    made = _kustomization("Component", api_version, configMapGenerator=[generator], configurations=["names.yaml"])
    return {
        f"{COMPONENT}/kustomization.yaml": yamlio.dump([made]),
        f"{COMPONENT}/names.yaml": yamlio.dump([reference]),
    }


def _kustomization(
    kind: str, api_version: str = "kustomize.config.k8s.io/v1beta1", **fields: list[Any]
) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": kind, **fields}


def _page(name: str, plan: JobPlan) -> str:
    """Returns a folder's page of five lines."""
    situation, kind = SITUATIONS[name], JOB_KINDS[plan.target]
    return f"""# {name}
{situation.purpose}
- **Needs** the {kind.operator} ({plan.target}); {_nodes(plan)}; {situation.needs}.
- **Run** `kubectl apply -k manifests/{name}`, or `k8sel apply --wait manifests/{name}/{JOB}`; then `k8sel logs {name}`.
- **Change** `image` and `command`; {situation.change}. [How](../README.md#to-change-one).
"""


def _nodes(plan: JobPlan) -> str:
    """Describes what the nodes must have."""
    number = "one node" if len(plan.nodes) == 1 else f"{len(plan.nodes)} nodes, each"
    asked = plan.container["resources"]["limits"]
    return f"{number} with {', '.join(f'{amount} {what}' for what, amount in asked.items())}"


def _index() -> str:
    rows = "".join(f"| [{name}]({name}) | {each.purpose} |\n" for name, each in SITUATIONS.items())
    return f"""# Manifests to start from

One folder a situation: its job file, the object that k8sel makes of it, and what it needs.
Written by `python manifests/generate.py` from the job files.

Each job runs as user 1000, so its image has to work for any user. Four run as root: the group that owns AMD's and
Intel's device nodes differs by host, no source names the owner of Gaudi's, and MPI's sshd needs a user of the image.

| folder | what for |
|---|---|
{rows}
## To change one

Image and program are stand-ins. With k8sel, copy `{JOB}`, change it, and `k8sel apply {JOB}`: everything that has to
agree with the change is made anew. Without it, `kubectl apply -k` takes a folder as it is, and a number that you change
in the object has to be changed wherever it stands: requests, processes, and `K8SEL_EXPECT`, which the check in the
container compares with what it finds.

That check is the chart's [`entrypoint.pyz`](../charts/k8sel/files), which every folder takes as a kustomize component:
copy a folder together with `charts/k8sel/files`. Every job mounts it from a ConfigMap whose name has its hash. Jobs of
one namespace share it, so end one of them by `k8sel delete NAME` or `kubectl delete pytorchjob NAME`, not by
`kubectl delete -k`.

## Rights

[rbac/viewer.yaml](rbac/viewer.yaml) is a Role with exactly what `k8sel status`, `logs`, `receipt` and `from` need,
[rbac/submitter.yaml](rbac/submitter.yaml) also what `apply` and `delete` need. An administrator gives one to a person:

    kubectl apply -n TEAM -f manifests/rbac/submitter.yaml
    kubectl create rolebinding NAME -n TEAM --role=k8sel-submitter --user=PERSON

Without one of these rights a command names the verb and the resource that it lacks. Rules marked optional only explain.
"""


def main() -> None:
    """Writes the files that changed and prints their names."""
    for name, content in files().items():
        file = HERE / name
        if not file.exists() or file.read_bytes() != content:
            file.write_bytes(content)
            print(f"manifests/{name}", file=sys.stderr)


if __name__ == "__main__":
    main()

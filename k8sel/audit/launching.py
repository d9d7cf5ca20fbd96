"""Traps of PyTorchJobs and torchrun: numbers of processes, and the variables that training-operator writes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sel.adopt.manifest.reader import Container, Manifest, Pods, mapping, number
from k8sel.adopt.manifest.started import Started
from k8sel.audit.trap import Found, trap
from k8sel.facts.names import LONGEST

_OPERATOR = "kubeflow/trainer release-1.9 pkg/controller.v1/pytorch/envvar.go"
_WEBHOOK = "kubeflow/trainer release-1.9 pkg/webhooks/pytorch/pytorchjob_webhook.go"
TORCHRUN = "pytorch/pytorch torch/distributed/run.py"
_BY_COUNT = ("auto", "cpu", "gpu", "xpu")
_GROUP = (
    "--nnodes",
    "--node-rank",
    "--master-addr",
    "--master-port",
    "--rdzv-endpoint",
    "--rdzv-backend",
    "--standalone",
)
_WRITTEN = re.compile(r"PET_[A-Z_]+|MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK")
_REFERENCE = re.compile(r"\$\((PET_[A-Z_]+|MASTER_ADDR|MASTER_PORT|WORLD_SIZE|RANK)\)")


def training(manifest: Manifest) -> Iterator[tuple[Pods, Container]]:
    """Yields the containers that train: of a PyTorchJob, the one named pytorch; of other kinds, all."""
    for pods in manifest.pods:
        for container in pods.containers:
            if manifest.kind != "PyTorchJob" or container.name == "pytorch" or len(pods.containers) == 1:
                yield pods, container


def starts(manifest: Manifest, *programs: str) -> Iterator[tuple[Pods, Container, Started]]:
    """Yields the containers that train and start one of ``programs``."""
    for pods, container in training(manifest):
        if container.starts and (not programs or container.launches(*programs)):
            yield pods, container, container.starts


def of_pytorch_job(manifest: Manifest) -> Iterator[tuple[Pods, Container]]:
    """Yields the containers of a PyTorchJob that train."""
    return training(manifest) if manifest.kind == "PyTorchJob" else iter(())


def processes_of_a_node(manifest: Manifest) -> tuple[str | None, Found]:
    """Returns spec.nprocPerNode, and the finding at its place."""
    value = manifest.get("spec", "nprocPerNode")
    return (None if value is None else str(value)), (manifest.at("spec", "nprocPerNode"), f"nprocPerNode is {value}")


@trap(
    id="nproc-per-node-auto",
    looks_at="PyTorchJob: nprocPerNode that torchrun counts at run time, in pods without devices",
    consequence="torchrun starts one rank for each CPU of the node, whatever limits.cpu says: 96 on 96 cores",
    fix='write the number in quotes: nprocPerNode: "2"',
    source=f"{_OPERATOR}; pytorch/pytorch torch/_utils.py (cpu_count)",
)
def _counted(manifest: Manifest) -> Iterator[Found]:
    per_node, found = processes_of_a_node(manifest)
    if manifest.kind != "PyTorchJob" or per_node not in (None, *_BY_COUNT):
        return
    for pods, container in of_pytorch_job(manifest):
        without_option = container.starts is not None and container.starts.option("--nproc-per-node") is None
        if not pods.requested and without_option and container.launches("torchrun"):
            yield found if per_node else (manifest.at("spec"), "nprocPerNode is not set, so it is auto")
            return


@trap(
    id="torchrun-counts-cpus",
    looks_at="torchrun --nproc-per-node=auto in pods without devices",
    consequence="torchrun starts one rank for each CPU of the node, whatever limits.cpu says",
    fix="give --nproc-per-node a number",
    source=TORCHRUN,
)
def _counted_by_torchrun(manifest: Manifest) -> Iterator[Found]:
    for pods, _, start in starts(manifest):
        given = start.option("--nproc-per-node", "--nproc_per_node")
        if given in _BY_COUNT and not pods.requested:
            yield start.path, f"torchrun --nproc-per-node={given}, in a pod that requests no device"


@trap(
    id="container-not-pytorch",
    looks_at="PyTorchJob: the name of the container",
    consequence="the operator's webhook refuses the job; without it, no variable of the group is written",
    fix="name: pytorch",
    source=_WEBHOOK,
)
def _container_name(manifest: Manifest) -> Iterator[Found]:
    for pods in manifest.pods if manifest.kind == "PyTorchJob" else ():
        if pods.containers and not any(container.name == "pytorch" for container in pods.containers):
            path = (*pods.containers[0].path, "name")
            yield path, f"no container of {pods.role} is called pytorch, but {pods.containers[0].name or 'nothing'}"


@trap(
    id="master-replicas",
    looks_at="PyTorchJob: Master.replicas",
    consequence="the operator's webhook refuses the job: replicas must be 1, and stated",
    fix="set replicas: 1 for Master, and make the rest Worker",
    source=_WEBHOOK,
)
def _one_master(manifest: Manifest) -> Iterator[Found]:
    for role in ("Master",) if manifest.kind == "PyTorchJob" else ():
        replica = manifest.get("spec", "pytorchReplicaSpecs", role)
        path = ("spec", "pytorchReplicaSpecs", role, "replicas")
        replicas = mapping(replica).get("replicas")
        if replica is not None and number(replicas) != 1:
            yield manifest.at(*path), f"Master has {'no replicas' if replicas is None else f'{replicas} replicas'}"


@trap(
    id="torchrun-beats-operator",
    looks_at="PyTorchJob of several nodes: torchrun's rendezvous options",
    consequence="an option overrides the operator's PET_ variable, alike on every node: nodes wait, or train alone",
    fix="write only torchrun --nproc-per-node N script.py: the operator sets the rest",
    source=f"{TORCHRUN}, argparse_util.py",
)
def _flags_beat_operator(manifest: Manifest) -> Iterator[Found]:
    for _, container in of_pytorch_job(manifest):
        if container.starts and container.starts.program == "torchrun":
            given = [name for name in _GROUP if container.starts.option(name, name.replace("-", "_")) is not None]
            if given and manifest.nodes > 1:
                yield container.starts.path, f"torchrun has {', '.join(given)}, and the job has {manifest.nodes} nodes"


@trap(
    id="nproc-differs",
    looks_at="PyTorchJob: torchrun's number of processes beside nprocPerNode",
    consequence="torchrun's number counts, but the operator's WORLD_SIZE comes from nprocPerNode",
    fix="write the same number, or none on torchrun's line",
    source=_OPERATOR,
)
def _numbers_differ(manifest: Manifest) -> Iterator[Found]:
    per_node = number(processes_of_a_node(manifest)[0])
    for _, container in of_pytorch_job(manifest):
        given = number(container.starts.option("--nproc-per-node")) if container.starts else None
        if container.starts and given and per_node and given != per_node:
            yield container.starts.path, f"torchrun starts {given} processes, and nprocPerNode is {per_node}"


@trap(
    id="python-many-ranks",
    looks_at="PyTorchJob: nprocPerNode above 1 with plain python",
    consequence="WORLD_SIZE counts processes that nothing starts: init_process_group waits until it times out",
    fix='set nprocPerNode: "1", or start the script by torchrun',
    source=_OPERATOR,
)
def _plain_python(manifest: Manifest) -> Iterator[Found]:
    per_node, found = processes_of_a_node(manifest)
    for _, container in of_pytorch_job(manifest):
        if container.launches("python", "python3") and (number(per_node) or 1) > 1:
            yield found[0], f"{found[1]}, and the container starts one python process"
            return


@trap(
    id="elastic-standalone",
    looks_at="PyTorchJob: elasticPolicy.standalone",
    consequence="the operator writes an empty PET_STANDALONE, and torchrun ends with a ValueError",
    fix="leave standalone out",
    source=f"{_OPERATOR}; pytorch/pytorch torch/distributed/argparse_util.py",
)
def _elastic_standalone(manifest: Manifest) -> Iterator[Found]:
    path = ("spec", "elasticPolicy", "standalone")
    if manifest.get(*path):
        yield manifest.at(*path), "elasticPolicy.standalone is true"


@trap(
    id="elastic-one-bound",
    looks_at="PyTorchJob: elasticPolicy with one bound",
    consequence="the operator sets the other bound to the same number, so the job is not elastic",
    fix="set both minReplicas and maxReplicas",
    source="kubeflow/trainer release-1.9 pkg/apis/kubeflow.org/v1/pytorch_defaults.go",
)
def _elastic_bound(manifest: Manifest) -> Iterator[Found]:
    policy = mapping(manifest.get("spec", "elasticPolicy"))
    given = [name for name in ("minReplicas", "maxReplicas") if policy.get(name) is not None]
    if len(given) == 1:
        yield manifest.at("spec", "elasticPolicy", given[0]), f"elasticPolicy has {given[0]} alone"


@trap(
    id="env-of-operator",
    looks_at="PyTorchJob: env that the operator writes too",
    consequence="the operator appends its own, and the last one counts: the value here is lost",
    fix="leave it out",
    source=f"{_OPERATOR}; kubernetes/kubernetes pkg/kubelet/kubelet_pods.go (makeEnvironmentVariables)",
)
def _env_is_operators(manifest: Manifest) -> Iterator[Found]:
    for _, container in of_pytorch_job(manifest):
        for name, variable in container.env.items():
            if _WRITTEN.fullmatch(name):
                yield variable.path, f"env sets {name}"


@trap(
    id="env-refers-to-operator",
    looks_at="PyTorchJob: $(NAME) of the operator's variables in env",
    consequence="a value refers only to variables before it, and the operator's come last: the text stays as it is",
    fix="refer to it in command or args, or in a shell as $NAME",
    source=f"{_OPERATOR}; kubernetes/kubernetes third_party/forked/golang/expansion/expand.go",
)
def _env_refers(manifest: Manifest) -> Iterator[Found]:
    for _, container in of_pytorch_job(manifest):
        for name, variable in container.env.items():
            match = _REFERENCE.search(variable.value.replace("$$", ""))
            if match:
                yield variable.path, f"the value of {name} holds {match[0]}"


@trap(
    id="name-too-long",
    looks_at="the names of pods",
    consequence="a pod's name is its host name, which has at most 63 characters: the pod or its service is refused",
    fix="shorten metadata.name",
    source="kubernetes/kubernetes staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go",
)
def _long_name(manifest: Manifest) -> Iterator[Found]:
    for pods in manifest.pods if manifest.kind in ("PyTorchJob", "MPIJob") else ():
        longest = f"{manifest.name}-{pods.role.lower()}-{max(pods.replicas - 1, 0)}"
        if len(longest) > LONGEST:
            yield manifest.at("metadata", "name"), f"the pod {longest} has {len(longest)} characters"

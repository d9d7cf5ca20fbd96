"""Traps of what is started: torchrun, accelerate, deepspeed, and the variables that training-operator gives them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sel.audit.manifest import Container, Manifest, Pods, mapping, number
from k8sel.audit.trap import Found, Trap
from k8sel.fromline.dropped import TABLE as DROPPED
from k8sel.names import LONGEST

_OPERATOR = "kubeflow/trainer release-1.9 pkg/controller.v1/pytorch/envvar.go"
_WEBHOOK = "kubeflow/trainer release-1.9 pkg/webhooks/pytorch/pytorchjob_webhook.go"
_TORCHRUN = "pytorch/pytorch torch/distributed/run.py"
_ACCELERATE = "huggingface/accelerate src/accelerate/commands/launch.py, utils/launch.py"
_DEEPSPEED = "deepspeedai/DeepSpeed deepspeed/launcher/runner.py"
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
    """The containers that train, of a PyTorchJob; all, of other kinds."""
    for pods in manifest.pods:
        for container in pods.containers:
            if manifest.kind != "PyTorchJob" or container.name == "pytorch" or len(pods.containers) == 1:
                yield pods, container


def _torch(manifest: Manifest) -> Iterator[tuple[Pods, Container]]:
    """Those of a PyTorchJob."""
    return training(manifest) if manifest.kind == "PyTorchJob" else iter(())


def _per_node(manifest: Manifest) -> tuple[str | None, Found]:
    """spec.nprocPerNode, and where it stands."""
    value = manifest.get("spec", "nprocPerNode")
    return (None if value is None else str(value)), (manifest.at("spec", "nprocPerNode"), f"nprocPerNode is {value}")


def _counted(manifest: Manifest) -> Iterator[Found]:
    per_node, found = _per_node(manifest)
    if manifest.kind != "PyTorchJob" or per_node not in (None, *_BY_COUNT):
        return
    for pods, container in _torch(manifest):
        untold = container.starts is not None and container.starts.option("--nproc-per-node") is None
        if not pods.asks and untold and container.launches("torchrun"):
            yield found if per_node else (manifest.at("spec"), "nprocPerNode is not there, so it is auto")
            return


def _counted_by_torchrun(manifest: Manifest) -> Iterator[Found]:
    for pods, container in training(manifest):
        given = container.starts.option("--nproc-per-node", "--nproc_per_node") if container.starts else None
        if container.starts and given in _BY_COUNT and not pods.asks:
            yield container.starts.path, f"torchrun --nproc-per-node={given}, in a pod that asks for no device"


def _container_name(manifest: Manifest) -> Iterator[Found]:
    for pods in manifest.pods if manifest.kind == "PyTorchJob" else ():
        if pods.containers and not any(container.name == "pytorch" for container in pods.containers):
            path = (*pods.containers[0].path, "name")
            yield path, f"no container of {pods.role} is called pytorch, but {pods.containers[0].name or 'nothing'}"


def _one_master(manifest: Manifest) -> Iterator[Found]:
    for role in ("Master",) if manifest.kind == "PyTorchJob" else ():
        replica = manifest.get("spec", "pytorchReplicaSpecs", role)
        path = ("spec", "pytorchReplicaSpecs", role, "replicas")
        replicas = mapping(replica).get("replicas")
        if replica is not None and number(replicas) != 1:
            yield manifest.at(*path), f"Master has {'no replicas' if replicas is None else f'{replicas} replicas'}"


def _flags_beat_operator(manifest: Manifest) -> Iterator[Found]:
    for _, container in _torch(manifest):
        if container.starts and container.starts.program == "torchrun":
            given = [name for name in _GROUP if container.starts.option(name, name.replace("-", "_")) is not None]
            if given and manifest.nodes > 1:
                yield container.starts.path, f"torchrun has {', '.join(given)}, and the job has {manifest.nodes} nodes"


def _numbers_differ(manifest: Manifest) -> Iterator[Found]:
    per_node = number(_per_node(manifest)[0])
    for _, container in _torch(manifest):
        given = number(container.starts.option("--nproc-per-node")) if container.starts else None
        if container.starts and given and per_node and given != per_node:
            yield container.starts.path, f"torchrun starts {given} processes, and nprocPerNode is {per_node}"


def _plain_python(manifest: Manifest) -> Iterator[Found]:
    per_node, found = _per_node(manifest)
    for _, container in _torch(manifest):
        if container.launches("python", "python3") and (number(per_node) or 1) > 1:
            yield found[0], f"{found[1]}, and the container starts one process, by python"
            return


def _elastic_standalone(manifest: Manifest) -> Iterator[Found]:
    path = ("spec", "elasticPolicy", "standalone")
    if manifest.get(*path):
        yield manifest.at(*path), "elasticPolicy.standalone is true"


def _elastic_bound(manifest: Manifest) -> Iterator[Found]:
    policy = mapping(manifest.get("spec", "elasticPolicy"))
    given = [name for name in ("minReplicas", "maxReplicas") if policy.get(name) is not None]
    if len(given) == 1:
        yield manifest.at("spec", "elasticPolicy", given[0]), f"elasticPolicy has {given[0]} alone"


def _env_is_operators(manifest: Manifest) -> Iterator[Found]:
    for _, container in _torch(manifest):
        for name, variable in container.env.items():
            if _WRITTEN.fullmatch(name):
                yield variable.path, f"env sets {name}"


def _env_refers(manifest: Manifest) -> Iterator[Found]:
    for _, container in _torch(manifest):
        for name, variable in container.env.items():
            match = _REFERENCE.search(variable.value.replace("$$", ""))
            if match:
                yield variable.path, f"the value of {name} holds {match[0]}"


def _accelerate_untold(manifest: Manifest) -> Iterator[Found]:
    for _, container in _torch(manifest):
        if container.launches("accelerate", "accelerate-launch") and container.starts and manifest.nodes > 1:
            wanted = ("--num_processes", "--num_machines", "--machine_rank", "--main_process_ip", "--main_process_port")
            missing = [name for name in wanted if container.starts.option(name) is None]
            if missing:
                yield container.starts.path, f"accelerate launch lacks {', '.join(missing)}"


def _accelerate_total(manifest: Manifest) -> Iterator[Found]:
    for pods, container in training(manifest):
        if not container.launches("accelerate", "accelerate-launch") or container.starts is None:
            continue
        total = number(container.starts.option("--num_processes"))
        machines = number(container.starts.option("--num_machines")) or 1
        held = sum(each.count for each in pods.asks)
        if total and machines > 1 and held and total // machines < held:
            what = (
                f"--num_processes {total} on {machines} machines is {total // machines} a node, and a node has {held}"
            )
            yield container.starts.path, f"{what} devices"


def _accelerate_cpu(manifest: Manifest) -> Iterator[Found]:
    for _, container in training(manifest):
        if container.launches("accelerate", "accelerate-launch") and container.starts:
            total = number(container.starts.option("--num_processes")) or 1
            hostfile = container.starts.option("--mpirun_hostfile")
            if container.starts.option("--cpu") is not None and total > 1 and hostfile is None:
                yield container.starts.path, f"accelerate launch --cpu --num_processes {total}"


def _deepspeed_alone(manifest: Manifest) -> Iterator[Found]:
    for _, container in _torch(manifest):
        starts = container.starts
        if container.launches("deepspeed") and starts and manifest.nodes > 1:
            told = [starts.option("--hostfile", "-H"), starts.option("--no_ssh")]
            if None in told:
                yield starts.path, f"deepspeed on {manifest.nodes} nodes without --hostfile and --no_ssh"


def _deepspeed_order(manifest: Manifest) -> Iterator[Found]:
    for _, container in training(manifest):
        if not container.launches("deepspeed") or container.starts is None:
            continue
        include = container.starts.option("--include", "-i")
        masks = [variable.value for name, variable in container.variables.items() if name.endswith("_VISIBLE_DEVICES")]
        for text in (include.rpartition(":")[2] if include else "", *masks):
            listed = text.split(",")
            if len(listed) > 1 and all(map(str.isdecimal, listed)) and listed != sorted(listed, key=int):
                yield container.starts.path, f"deepspeed is to use devices {text}"


def _one_thread(manifest: Manifest) -> Iterator[Found]:
    for pods, container in training(manifest):
        if container.launches("torchrun") and container.starts and not pods.asks:
            given = container.starts.option("--nproc-per-node") or _per_node(manifest)[0]
            if (number(given) or 1) > 1 and "OMP_NUM_THREADS" not in container.variables:
                yield container.starts.path, f"torchrun starts {given} processes on CPUs, without OMP_NUM_THREADS"


def _dropped(manifest: Manifest) -> Iterator[Found]:
    for _, container in training(manifest):
        words = container.starts.words if container.starts else ()
        for index, word in enumerate(words):
            option, _, value = word.partition("=")
            value = value or (words[index + 1] if index + 1 < len(words) else "")
            for row in DROPPED:
                if row.option == option and row.value in (None, value) and container.starts:
                    shown = f"{option} {row.value}" if row.value else option
                    yield container.starts.path, f"{shown}: {row.message}"


def _shell_first(manifest: Manifest) -> Iterator[Found]:
    for _, container in training(manifest):
        starts = container.starts
        if starts and starts.by_shell and not starts.replaces_shell and not starts.program.startswith("sshd"):
            yield starts.path, f"a shell runs several commands, and {starts.program} is one of them"


def _long_name(manifest: Manifest) -> Iterator[Found]:
    for pods in manifest.pods if manifest.kind in ("PyTorchJob", "MPIJob") else ():
        longest = f"{manifest.name}-{pods.role.lower()}-{max(pods.replicas - 1, 0)}"
        if len(longest) > LONGEST:
            yield manifest.at("metadata", "name"), f"the pod {longest} has {len(longest)} characters"


TRAPS = (
    Trap(
        id="nproc-per-node-auto",
        looks_at="PyTorchJob: nprocPerNode that is counted where it runs, in pods without devices",
        consequence="torchrun starts one rank for each CPU of the node, whatever limits.cpu says: 96 on 96 cores",
        fix='nprocPerNode: "2", the number, in quotes',
        source=f"{_OPERATOR}; pytorch/pytorch torch/_utils.py (cpu_count)",
        find=_counted,
    ),
    Trap(
        id="torchrun-counts-cpus",
        looks_at="torchrun --nproc-per-node=auto in pods without devices",
        consequence="torchrun starts one rank for each CPU of the node, whatever limits.cpu says",
        fix="--nproc-per-node with a number",
        source=_TORCHRUN,
        find=_counted_by_torchrun,
    ),
    Trap(
        id="container-not-pytorch",
        looks_at="PyTorchJob: the name of the container",
        consequence="the operator's webhook refuses the job; without it, no variable of the group is written",
        fix="name: pytorch",
        source=_WEBHOOK,
        find=_container_name,
    ),
    Trap(
        id="master-replicas",
        looks_at="PyTorchJob: Master.replicas",
        consequence="the operator's webhook refuses the job: it wants 1, and written down",
        fix="replicas: 1 for Master, and the rest as Worker",
        source=_WEBHOOK,
        find=_one_master,
    ),
    Trap(
        id="torchrun-beats-operator",
        looks_at="PyTorchJob of several nodes: torchrun's options of the group",
        consequence="an option beats the operator's PET_ variable, alike on every node: they wait, or train alone",
        fix="torchrun --nproc-per-node N script.py, and nothing else: the operator says the rest",
        source=f"{_TORCHRUN}, argparse_util.py",
        find=_flags_beat_operator,
    ),
    Trap(
        id="nproc-differs",
        looks_at="PyTorchJob: torchrun's number of processes beside nprocPerNode",
        consequence="torchrun's number counts, and the operator's WORLD_SIZE is of the other",
        fix="the same number, or none on torchrun's line",
        source=_OPERATOR,
        find=_numbers_differ,
    ),
    Trap(
        id="python-many-ranks",
        looks_at="PyTorchJob: nprocPerNode above 1 with plain python",
        consequence="WORLD_SIZE counts processes that nobody starts: init_process_group waits until it times out",
        fix='nprocPerNode: "1", or torchrun in front of the script',
        source=_OPERATOR,
        find=_plain_python,
    ),
    Trap(
        id="elastic-standalone",
        looks_at="PyTorchJob: elasticPolicy.standalone",
        consequence="the operator writes an empty PET_STANDALONE, at which torchrun ends with a ValueError",
        fix="leave standalone out",
        source=f"{_OPERATOR}; pytorch/pytorch torch/distributed/argparse_util.py",
        find=_elastic_standalone,
    ),
    Trap(
        id="elastic-one-bound",
        looks_at="PyTorchJob: elasticPolicy with one bound",
        consequence="the other bound is set to the same number, so the job is not elastic",
        fix="minReplicas and maxReplicas both",
        source="kubeflow/trainer release-1.9 pkg/apis/kubeflow.org/v1/pytorch_defaults.go",
        find=_elastic_bound,
    ),
    Trap(
        id="env-of-operator",
        looks_at="PyTorchJob: env that the operator writes too",
        consequence="the operator appends its own, and the last one counts: the value here is lost",
        fix="leave it out",
        source=f"{_OPERATOR}; kubernetes/kubernetes pkg/kubelet/kubelet_pods.go (makeEnvironmentVariables)",
        find=_env_is_operators,
    ),
    Trap(
        id="env-refers-to-operator",
        looks_at="PyTorchJob: $(NAME) of the operator's variables in env",
        consequence="a value refers only to variables before it, and the operator's come last: the text stays as it is",
        fix="refer to it in command or args, or in a shell as $NAME",
        source=f"{_OPERATOR}; kubernetes/kubernetes third_party/forked/golang/expansion/expand.go",
        find=_env_refers,
    ),
    Trap(
        id="accelerate-reads-pet",
        looks_at="PyTorchJob of several nodes: accelerate launch that is not told everything",
        consequence="accelerate takes the rest from PET_ variables, a file in the image, or by counting: another group",
        fix="all five, with $(PET_NODE_RANK), $(PET_MASTER_ADDR) and $(PET_MASTER_PORT)",
        source=_ACCELERATE,
        find=_accelerate_untold,
    ),
    Trap(
        id="accelerate-counts-all",
        looks_at="accelerate launch --num_processes on several machines",
        consequence="--num_processes is the number of all machines together: devices stay idle",
        fix="--num_processes: devices of a node times machines",
        source=_ACCELERATE,
        find=_accelerate_total,
    ),
    Trap(
        id="accelerate-cpu-one-process",
        looks_at="accelerate launch --cpu with several processes",
        consequence="without --mpirun_hostfile, accelerate starts one process",
        fix="torchrun with ACCELERATE_USE_CPU=true, or mpirun",
        source=_ACCELERATE,
        find=_accelerate_cpu,
    ),
    Trap(
        id="deepspeed-alone",
        looks_at="PyTorchJob of several nodes: deepspeed's launcher",
        consequence="without a hostfile, deepspeed starts a group of its own on each node",
        fix="torchrun, and deepspeed as a library",
        source=_DEEPSPEED,
        find=_deepspeed_alone,
    ),
    Trap(
        id="deepspeed-sorts",
        looks_at="deepspeed's launcher with devices in an order",
        consequence="deepspeed sorts the numbers (since v0.15.2): the order is lost",
        fix="torchrun, which leaves masks alone",
        source=_DEEPSPEED,
        find=_deepspeed_order,
    ),
    Trap(
        id="torchrun-one-thread",
        looks_at="torchrun with several processes on CPUs",
        consequence="torchrun sets OMP_NUM_THREADS=1, so each process computes on one core",
        fix="OMP_NUM_THREADS in env: the cores of the container, shared among its processes",
        source=_TORCHRUN,
        find=_one_thread,
    ),
    Trap(
        id="dropped-option",
        looks_at="options of the training program",
        consequence="a newer image ends with `unrecognized arguments`, or with a ValueError",
        fix="--use_cpu and --ddp_backend gloo on CPUs, xccl on XPUs; or an image of that version",
        source="huggingface/transformers src/transformers/training_args.py; intel/torch-ccl README.md",
        find=_dropped,
    ),
    Trap(
        id="shell-keeps-signals",
        looks_at="a shell as the container's first process",
        consequence="the shell does not pass SIGTERM on: training is killed after the grace period, and saves nothing",
        fix="`exec` in front of the last command",
        source="POSIX.1-2024, Shell Command Language, 2.12",
        find=_shell_first,
    ),
    Trap(
        id="name-too-long",
        looks_at="the names of pods",
        consequence="a pod's name is its host name, which has at most 63 characters: the pod or its service is refused",
        fix="a shorter metadata.name",
        source="kubernetes/kubernetes staging/src/k8s.io/apimachinery/pkg/util/validation/validation.go",
        find=_long_name,
    ),
)

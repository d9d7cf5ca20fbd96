"""Traps of accelerate, deepspeed, shells, and the program's own options."""

from __future__ import annotations

from collections.abc import Iterator

from k8sel.adopt.line.dropped import TABLE as DROPPED
from k8sel.adopt.manifest.reader import Manifest, number
from k8sel.audit.launching import TORCHRUN, of_pytorch_job, processes_of_a_node, training
from k8sel.audit.trap import Found, Trap

_ACCELERATE = "huggingface/accelerate src/accelerate/commands/launch.py, utils/launch.py"
_DEEPSPEED = "deepspeedai/DeepSpeed deepspeed/launcher/runner.py"


def _accelerate_incomplete(manifest: Manifest) -> Iterator[Found]:
    for _, container in of_pytorch_job(manifest):
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
        devices = sum(each.count for each in pods.requested)
        if total and machines > 1 and devices and total // machines < devices:
            given = f"--num_processes {total} on {machines} machines"
            yield container.starts.path, f"{given} is {total // machines} a node, and a node has {devices} devices"


def _accelerate_cpu(manifest: Manifest) -> Iterator[Found]:
    for _, container in training(manifest):
        if container.launches("accelerate", "accelerate-launch") and container.starts:
            total = number(container.starts.option("--num_processes")) or 1
            hostfile = container.starts.option("--mpirun_hostfile")
            if container.starts.option("--cpu") is not None and total > 1 and hostfile is None:
                yield container.starts.path, f"accelerate launch --cpu --num_processes {total}"


def _deepspeed_alone(manifest: Manifest) -> Iterator[Found]:
    for _, container in of_pytorch_job(manifest):
        starts = container.starts
        if container.launches("deepspeed") and starts and manifest.nodes > 1:
            options = [starts.option("--hostfile", "-H"), starts.option("--no_ssh")]
            if None in options:
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
                yield container.starts.path, f"deepspeed gets devices {text}"


def _one_thread(manifest: Manifest) -> Iterator[Found]:
    for pods, container in training(manifest):
        if container.launches("torchrun") and container.starts and not pods.requested:
            given = container.starts.option("--nproc-per-node") or processes_of_a_node(manifest)[0]
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


TRAPS = (
    Trap(
        id="accelerate-reads-pet",
        looks_at="PyTorchJob of several nodes: accelerate launch without all options of the group",
        consequence="accelerate takes the rest from PET_ variables, a file in the image or its count: groups differ",
        fix="give all five, with $(PET_NODE_RANK), $(PET_MASTER_ADDR) and $(PET_MASTER_PORT)",
        source=_ACCELERATE,
        find=_accelerate_incomplete,
    ),
    Trap(
        id="accelerate-counts-all",
        looks_at="accelerate launch --num_processes on several machines",
        consequence="--num_processes counts the processes of all machines together: devices stay idle",
        fix="set --num_processes to devices per node times machines",
        source=_ACCELERATE,
        find=_accelerate_total,
    ),
    Trap(
        id="accelerate-cpu-one-process",
        looks_at="accelerate launch --cpu with several processes",
        consequence="without --mpirun_hostfile, accelerate starts one process",
        fix="use torchrun with ACCELERATE_USE_CPU=true, or mpirun",
        source=_ACCELERATE,
        find=_accelerate_cpu,
    ),
    Trap(
        id="deepspeed-alone",
        looks_at="PyTorchJob of several nodes: deepspeed's launcher",
        consequence="without a hostfile, deepspeed starts a group of its own on each node",
        fix="use torchrun, and deepspeed as a library",
        source=_DEEPSPEED,
        find=_deepspeed_alone,
    ),
    Trap(
        id="deepspeed-sorts",
        looks_at="deepspeed's launcher with unsorted devices",
        consequence="deepspeed sorts the numbers (since v0.15.2): the order is lost",
        fix="use torchrun, which leaves masks alone",
        source=_DEEPSPEED,
        find=_deepspeed_order,
    ),
    Trap(
        id="torchrun-one-thread",
        looks_at="torchrun with several processes on CPUs",
        consequence="torchrun sets OMP_NUM_THREADS=1, so each process computes on one core",
        fix="set OMP_NUM_THREADS in env to the container's cores divided by its processes",
        source=TORCHRUN,
        find=_one_thread,
    ),
    Trap(
        id="dropped-option",
        looks_at="options of the training program",
        consequence="a newer image ends with `unrecognized arguments`, or with a ValueError",
        fix="use --use_cpu and --ddp_backend gloo on CPUs, xccl on XPUs; or use an image of that version",
        source="huggingface/transformers src/transformers/training_args.py; intel/torch-ccl README.md",
        find=_dropped,
    ),
    Trap(
        id="shell-keeps-signals",
        looks_at="a shell as the container's first process",
        consequence="the shell does not pass SIGTERM on: training is killed after the grace period, and saves nothing",
        fix="write `exec` before the last command",
        source="POSIX.1-2024, Shell Command Language, 2.12",
        find=_shell_first,
    ),
)

"""Traps of accelerate, deepspeed, shells, and the program's own options."""

from __future__ import annotations

from collections.abc import Iterator

from k8sel.adopt.line.dropped import TABLE as DROPPED
from k8sel.adopt.manifest.reader import Manifest, number, positions
from k8sel.audit.launching import TORCHRUN, processes_of_a_node, starts
from k8sel.audit.trap import Found, trap

_ACCELERATE = "huggingface/accelerate src/accelerate/commands/launch.py, utils/launch.py"
_ACCELERATES = ("accelerate", "accelerate-launch")
_DEEPSPEED = "deepspeedai/DeepSpeed deepspeed/launcher/runner.py"


@trap(
    id="accelerate-reads-pet",
    looks_at="PyTorchJob of several nodes: accelerate launch without all options of the group",
    consequence="accelerate takes the rest from PET_ variables, a file in the image or its count: groups differ",
    fix="give all five, with $(PET_NODE_RANK), $(PET_MASTER_ADDR) and $(PET_MASTER_PORT)",
    source=_ACCELERATE,
)
def _accelerate_incomplete(manifest: Manifest) -> Iterator[Found]:
    wanted = ("--num_processes", "--num_machines", "--machine_rank", "--main_process_ip", "--main_process_port")
    for _, _, start in starts(manifest, *_ACCELERATES) if _is_group(manifest) else ():
        missing = [name for name in wanted if start.option(name) is None]
        if missing:
            yield start.path, f"accelerate launch lacks {', '.join(missing)}"


def _is_group(manifest: Manifest) -> bool:
    return manifest.kind == "PyTorchJob" and manifest.nodes > 1


@trap(
    id="accelerate-counts-all",
    looks_at="accelerate launch --num_processes on several machines",
    consequence="--num_processes counts the processes of all machines together: devices stay idle",
    fix="set --num_processes to devices per node times machines",
    source=_ACCELERATE,
)
def _accelerate_total(manifest: Manifest) -> Iterator[Found]:
    for pods, _, start in starts(manifest, *_ACCELERATES):
        total, machines = number(start.option("--num_processes")), number(start.option("--num_machines")) or 1
        devices = sum(each.count for each in pods.requested)
        if total and machines > 1 and devices and total // machines < devices:
            given = f"--num_processes {total} on {machines} machines"
            yield start.path, f"{given} is {total // machines} a node, and a node has {devices} devices"


@trap(
    id="accelerate-cpu-one-process",
    looks_at="accelerate launch --cpu with several processes",
    consequence="without --mpirun_hostfile, accelerate starts one process",
    fix="use torchrun with ACCELERATE_USE_CPU=true, or mpirun",
    source=_ACCELERATE,
)
def _accelerate_cpu(manifest: Manifest) -> Iterator[Found]:
    for _, _, start in starts(manifest, *_ACCELERATES):
        total = number(start.option("--num_processes")) or 1
        if start.option("--cpu") is not None and total > 1 and start.option("--mpirun_hostfile") is None:
            yield start.path, f"accelerate launch --cpu --num_processes {total}"


@trap(
    id="deepspeed-alone",
    looks_at="PyTorchJob of several nodes: deepspeed's launcher",
    consequence="without a hostfile, deepspeed starts a group of its own on each node",
    fix="use torchrun, and deepspeed as a library",
    source=_DEEPSPEED,
)
def _deepspeed_alone(manifest: Manifest) -> Iterator[Found]:
    for _, _, start in starts(manifest, "deepspeed") if _is_group(manifest) else ():
        if None in (start.option("--hostfile", "-H"), start.option("--no_ssh")):
            yield start.path, f"deepspeed on {manifest.nodes} nodes without --hostfile and --no_ssh"


@trap(
    id="deepspeed-sorts",
    looks_at="deepspeed's launcher with unsorted devices",
    consequence="deepspeed sorts the numbers (since v0.15.2): the order is lost",
    fix="use torchrun, which leaves masks alone",
    source=_DEEPSPEED,
)
def _deepspeed_order(manifest: Manifest) -> Iterator[Found]:
    for _, container, start in starts(manifest, "deepspeed"):
        include = start.option("--include", "-i")
        masks = [variable.value for name, variable in container.variables.items() if name.endswith("_VISIBLE_DEVICES")]
        for text in (include.rpartition(":")[2] if include else "", *masks):
            numbers = positions(text.split(","))
            if len(numbers) == text.count(",") + 1 and list(numbers) != sorted(numbers):
                yield start.path, f"deepspeed gets devices {text}"


@trap(
    id="torchrun-one-thread",
    looks_at="torchrun with several processes on CPUs",
    consequence="torchrun sets OMP_NUM_THREADS=1, so each process computes on one core",
    fix="set OMP_NUM_THREADS in env to the container's cores divided by its processes",
    source=TORCHRUN,
)
def _one_thread(manifest: Manifest) -> Iterator[Found]:
    for pods, container, start in starts(manifest, "torchrun"):
        given = start.option("--nproc-per-node") or processes_of_a_node(manifest)[0]
        if not pods.requested and (number(given) or 1) > 1 and "OMP_NUM_THREADS" not in container.variables:
            yield start.path, f"torchrun starts {given} processes on CPUs, without OMP_NUM_THREADS"


@trap(
    id="dropped-option",
    looks_at="options of the training program",
    consequence="a newer image ends with `unrecognized arguments`, or with a ValueError",
    fix="use --use_cpu and --ddp_backend gloo on CPUs, xccl on XPUs; or use an image of that version",
    source="huggingface/transformers src/transformers/training_args.py; intel/torch-ccl README.md",
)
def _dropped(manifest: Manifest) -> Iterator[Found]:
    for _, _, start in starts(manifest):
        for word, following in zip(start.words, (*start.words[1:], ""), strict=False):
            option, _, value = word.partition("=")
            for row in DROPPED:
                if row.option == option and row.value in (None, value or following):
                    shown = f"{option} {row.value}" if row.value else option
                    yield start.path, f"{shown}: {row.message}"


@trap(
    id="shell-keeps-signals",
    looks_at="a shell as the container's first process",
    consequence="the shell does not pass SIGTERM on: training is killed after the grace period, and saves nothing",
    fix="write `exec` before the last command",
    source="POSIX.1-2024, Shell Command Language, 2.12",
)
def _shell_first(manifest: Manifest) -> Iterator[Found]:
    for _, _, start in starts(manifest):
        if start.by_shell and not start.replaces_shell and not start.program.startswith("sshd"):
            yield start.path, f"a shell runs several commands, and {start.program} is one of them"

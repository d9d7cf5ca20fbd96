"""What is started, and by whom."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from k8sel.entrypoint.tables import BY_NUMBER
from k8sel.errors import Problem
from k8sel.facts.accelerators import ROWS
from k8sel.facts.launchers import LAUNCHERS
from k8sel.jobfile.quantity import amount
from k8sel.jobfile.rules.common import Rule
from k8sel.jobfile.spec import JobFile, Mpi
from k8sel.wording import as_list, forbidden, invalid, quote, required, warning

COMMAND = ("spec", "command")
# Programs that start the processes of a group: k8sel puts one of them around the command itself.
STARTERS = frozenset(
    ("torchrun", "accelerate", "accelerate-launch", "deepspeed", "mpirun", "mpiexec", "mpiexec.hydra", "horovodrun")
)
MODULES = frozenset(("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"))
IN_SHELL = rf"(?:^|[;&|]\s*|\bexec\s+)({'|'.join(map(re.escape, sorted(STARTERS)))})\s"
_OPTION = re.compile(r"--(nproc[-_]per[-_]node|nnodes|rdzv[-_]\w+|node[-_]rank|standalone)(=.*)?")


def target_serves(job: JobFile, door: str) -> Iterator[Problem]:
    """A target starts the processes the way that the launcher needs."""
    launcher, target = job.spec.launcher, job.spec.target
    targets = LAUNCHERS[launcher].targets
    if target is not None and target not in targets:
        fitting = [name for name, other in LAUNCHERS.items() if target in other.targets]
        message = f"target {target} cannot serve launcher {launcher}, which runs as {' or '.join(targets)}"
        yield invalid(("spec", "target"), message, f"leave target out, or use launcher {', '.join(fitting)}")


def mpi_needs_mpirun(job: JobFile, door: str) -> Iterator[Problem]:
    """MPI settings say nothing without MPI."""
    if job.spec.launcher != "mpirun" and job.spec.mpi != Mpi():
        message = f"launcher {job.spec.launcher} uses no MPI"
        yield forbidden(("spec", "mpi"), message, "leave mpi out, or launcher: mpirun")


def restarts_need_an_agent(job: JobFile, door: str) -> Iterator[Problem]:
    """Only torch's agent starts processes again."""
    if job.spec.policy.max_restarts and job.spec.launcher in ("mpirun", "python"):
        message = f"launcher {job.spec.launcher} restarts no processes"
        hint = "launcher: torchrun, which restarts a node's processes"
        yield forbidden(("spec", "policy", "maxRestarts"), message, hint)


def python_starts_one(job: JobFile, door: str) -> Iterator[Problem]:
    """Without a launcher there is one process a node."""
    processes = job.spec.processes_per_node or 1
    if job.spec.launcher == "python" and processes > 1:
        message = f"launcher python starts one process on a node, not {processes}"
        yield invalid(("spec", "processesPerNode"), message, "launcher: torchrun, or leave processesPerNode out")


def image_is_given(job: JobFile, door: str) -> Iterator[Problem]:
    """A container needs an image."""
    image = job.spec.image
    if image is None and door != "run":
        yield required(("spec", "image"), "a container needs an image", "the image that has the training program")
    elif image is not None and re.search(r"[\s\0]", image):
        yield invalid(("spec", "image"), f"{quote(image)} has white space in it", "write the image's name only")


def command_is_words(job: JobFile, door: str) -> Iterator[Problem]:
    """A command is a list of words, its program first."""
    command = job.spec.command
    if not command[0].strip():
        yield invalid((*COMMAND, 0), "the program's name is empty", "for example [python, train.py]")
    elif len(command) == 1 and re.search(r"\s", command[0].strip()):
        message = "this is one word with spaces in it, and would be looked for as a program of that name"
        yield invalid((*COMMAND, 0), message, f"command: {as_list(command[0])}")
    for index, word in enumerate(command):
        if "\0" in word:
            yield invalid((*COMMAND, index), "a program's argument cannot hold a zero byte")


def no_launcher_inside(job: JobFile, door: str) -> Iterator[Problem]:
    """The command is what one runs on one device: a launcher within the launcher starts each process many times."""
    found = _starter(job.spec.command)
    if found:
        index, name = found
        message = f"the launcher is put around the command, and {name} is in it already"
        hint = "write what runs on one device, for example [python, train.py]; spec.launcher says the rest"
        yield forbidden((*COMMAND, index), message, hint)


def _starter(command: Sequence[str]) -> tuple[int, str] | None:
    """Which word of ``command`` starts a group of processes, and by what."""
    program = PurePosixPath(command[0]).name
    if program in STARTERS:
        return 0, program
    for index, (word, following) in enumerate(pairwise(command)):
        if word == "-m" and following in MODULES and program.startswith("python"):
            return index + 1, following
        script = word in ("-c", "-lc", "-ec") and program in ("sh", "bash") and re.search(IN_SHELL, following)
        if script:
            return index + 1, script[1]
    return None


def no_launcher_options(job: JobFile, door: str) -> Iterator[Problem]:
    """torchrun's options after the program's name reach the program, not torchrun."""
    for index, word in enumerate(job.spec.command):
        if _OPTION.fullmatch(word):
            message = f"{word.partition('=')[0]} goes to the program, not to the launcher"
            yield warning((*COMMAND, index), message, "nodes and processesPerNode say it to the launcher")


def shares_need_the_entrypoint(job: JobFile, door: str) -> Iterator[Problem]:
    """A mask for each process is written where the process starts."""
    spec = job.spec
    several = (spec.processes_per_node or 1) > 1 and bool(spec.accelerator.devices)
    if spec.entrypoint.mode == "none" and spec.accelerator.isolation == "process" and several:
        message = "isolation: process needs the entrypoint, which writes each process's own mask"
        yield invalid(("spec", "entrypoint", "mode"), message, "mode: configMap, or isolation: node")


def checks_need_the_entrypoint(job: JobFile, door: str) -> Iterator[Problem]:
    """Nothing checks without the entrypoint."""
    if job.spec.entrypoint.mode == "none" and job.spec.entrypoint.check != "off":
        message = "mode none checks nothing"
        yield forbidden(("spec", "entrypoint", "check"), message, "leave check out, or mode: configMap")


def masks_need_the_entrypoint(job: JobFile, door: str) -> Iterator[Problem]:
    """Without it, a mask is written by position; some hold what only a look at the devices can say."""
    row = ROWS.get(job.spec.accelerator.type)
    bare = job.spec.entrypoint.mode == "none" and job.spec.accelerator.devices
    if row and bare and row.mask_value in BY_NUMBER:
        message = f"{row.mask_env} does not hold positions, and only the entrypoint sees what they stand for"
        yield invalid(("spec", "entrypoint", "mode"), message, "mode: configMap")


def ssh_settings(job: JobFile, door: str) -> Iterator[Problem]:
    """ssh's options are words of one line."""
    path = job.spec.mpi.ssh_auth_mount_path
    if path and re.search(r"[\s\"'\\,]", path):
        message = f"{quote(path)} has a character that ends an option of ssh"
        yield invalid(("spec", "mpi", "sshAuthMountPath"), message, "use letters, digits, '/', '.', '-' and '_'")


def processes_have_cpus(job: JobFile, door: str) -> Iterator[Problem]:
    """Threads beyond the CPUs wait for each other, and for oneCCL's."""
    threads, workers = job.spec.cpu.threads_per_process or 0, job.spec.ccl.workers or 0
    processes, cpus = job.spec.processes_per_node or 1, amount(job.spec.resources.get("cpu", 0)) or 0
    if threads and (threads + workers) * processes > cpus > 0:
        each = f"({threads} threads + {workers} of oneCCL)" if workers else f"{threads} threads"
        message = f"{processes} x {each}, and a node's container has {job.spec.resources['cpu']} CPUs"
        yield warning(("spec", "cpu", "threadsPerProcess"), message, "leave it out: it is then counted where it runs")


def cores_are_counted(job: JobFile, door: str) -> Iterator[Problem]:
    """A process that has cores of its own has as many as it has threads."""
    spec = job.spec
    if spec.launcher == "mpirun" and spec.mpi.binding == "core" and spec.cpu.threads_per_process is None:
        message = "with mpi.binding core, a process has as many cores as threads"
        hint = "threadsPerProcess: 4, say, or mpi.binding: socket"
        yield required(("spec", "cpu", "threadsPerProcess"), message, hint)


def processes_by_parts(job: JobFile, door: str) -> Iterator[Problem]:
    """A default that counted this machine's parts has dropped the word: where it is left, something else decides."""
    spec, path = job.spec, ("spec", "cpu", "processPer")
    if spec.cpu.process_per is None:
        return
    if door == "kubernetes":
        message = "only `k8sel run` and `k8sel docker` know the machine"
        yield forbidden(path, message, "processesPerNode says it for a cluster's nodes")
    elif not LAUNCHERS[spec.launcher].per_device:
        message = f"launcher {spec.launcher} starts one process on a node"
        yield forbidden(path, message, "leave processPer out, or launcher: torchrun")
    elif spec.accelerator.devices:
        message = "a node has one process for each of its devices"
        yield forbidden(path, message, "leave processPer out, or devices: []")
    else:
        message = f"processesPerNode says {spec.processes_per_node} already"
        yield forbidden(path, message, "keep one of the two")


RULES: tuple[Rule, ...] = (
    target_serves,
    mpi_needs_mpirun,
    restarts_need_an_agent,
    python_starts_one,
    image_is_given,
    command_is_words,
    no_launcher_inside,
    no_launcher_options,
    shares_need_the_entrypoint,
    checks_need_the_entrypoint,
    masks_need_the_entrypoint,
    ssh_settings,
    processes_have_cpus,
    cores_are_counted,
    processes_by_parts,
)

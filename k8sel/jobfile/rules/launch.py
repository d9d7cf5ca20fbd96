"""Rules for the image, the command and the launcher around it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import PurePosixPath

from k8sel.errors import Problem
from k8sel.facts.platforms import Platform
from k8sel.jobfile import oneccl
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.quantity import amount
from k8sel.jobfile.rules.common import rules_in
from k8sel.wording import as_list, forbidden, invalid, quote, required, warning

COMMAND = ("spec", "command")
# Programs that start a group of processes. k8sel itself adds one of them to the command.
STARTERS = frozenset(
    ("torchrun", "accelerate", "accelerate-launch", "deepspeed", "mpirun", "mpiexec", "mpiexec.hydra", "horovodrun")
)
MODULES = frozenset(("torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch"))
IN_SHELL = rf"(?:^|[;&|]\s*|\bexec\s+)({'|'.join(map(re.escape, sorted(STARTERS)))})\s"
# distribution/reference: https://github.com/distribution/reference/blob/v0.6.0/regexp.go (ReferenceRegexp)
_DOMAIN = (
    r"(?:[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)*|\[[a-fA-F0-9:]+\])"
)
_NAME = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_DIGEST = r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}"
IMAGE = rf"(?:{_DOMAIN}(?::[0-9]+)?/)?{_NAME}(?:/{_NAME})*(?::[A-Za-z0-9_][A-Za-z0-9_.-]{{0,127}})?(?:@{_DIGEST})?"
ENDS_AN_OPTION = r"[\s\"'\\,]"  # in a word of ssh's options
_OPTION = re.compile(r"--(nproc[-_]per[-_]node|nnodes|rdzv[-_]\w+|node[-_]rank|standalone)(=.*)?")


def image_is_given(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a missing image where the job runs in containers, and a text that is no reference to an image."""
    image = job.spec.image
    if image is None and platform.in_container:
        yield required(("spec", "image"), "a container needs an image", "name the image that has the training program")
    elif image is not None and re.search(r"[\s\0]", image):
        yield invalid(("spec", "image"), f"{quote(image)} contains white space", "write the image's name only")
    elif image is not None and not re.fullmatch(IMAGE, image):
        hint = "write it as in registry.example/train:1, in lower case, with a letter or a digit first"
        yield invalid(("spec", "image"), f"{quote(image)} is not a reference to an image", hint)


def command_is_words(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a command that is not a list of words with the program first."""
    command = job.spec.command
    if not command[0].strip():
        yield invalid((*COMMAND, 0), "the program's name is empty", "write a command, for example [python, train.py]")
    elif len(command) == 1 and re.search(r"\s", command[0].strip()):
        message = "one word with spaces is the name of one program, not a command line"
        yield invalid((*COMMAND, 0), message, f"command: {as_list(command[0])}")
    for index, word in enumerate(command):
        if "\0" in word:
            yield invalid((*COMMAND, index), "a program's argument cannot contain a zero byte")


def no_launcher_inside(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a launcher in the command: the job's launcher would start it in each process again."""
    found = _starter(job.spec.command)
    if found:
        index, name = found
        message = f"the command already has the launcher {name}, and k8sel adds the launcher itself"
        hint = "write the command of one process, for example [python, train.py], and set spec.launcher"
        yield forbidden((*COMMAND, index), message, hint)


def _starter(command: Sequence[str]) -> tuple[int, str] | None:
    """Returns the index and the name of the word in ``command`` that starts a group of processes; None without one."""
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


def no_launcher_options(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of torchrun's options in the command: the program gets them, not torchrun."""
    for index, word in enumerate(job.spec.command):
        if _OPTION.fullmatch(word):
            message = f"{word.partition('=')[0]} goes to the program, not to the launcher"
            yield warning((*COMMAND, index), message, "use nodes and processesPerNode for the launcher")


def ssh_settings(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a path that ssh's options cannot hold: they are words of one line."""
    path = job.spec.mpi.ssh_auth_mount_path
    if re.search(ENDS_AN_OPTION, path):
        message = f"{quote(path)} has a character that an ssh option cannot contain"
        yield invalid(("spec", "mpi", "sshAuthMountPath"), message, "use letters, digits, '/', '.', '-' and '_'")


def processes_have_cpus(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of more threads than CPUs: the program's threads and oneCCL's then wait for each other."""
    threads, workers = job.spec.cpu.threads_per_process or 0, oneccl.workers(job.spec)
    processes, cpus = job.spec.processes_per_node, amount(job.spec.resources.get("cpu", 0)) or 0
    if threads and (threads + workers) * processes > cpus > 0:
        each = f"({threads} threads + {workers} of oneCCL)" if workers else f"{threads} threads"
        message = f"{processes} x {each}, but a node's container has only {job.spec.resources['cpu']} CPUs"
        yield warning(("spec", "cpu", "threadsPerProcess"), message, "leave it out, and k8sel counts the CPUs itself")


RULES = rules_in(globals())

"""Warns of values that are allowed, and probably do not mean what their author wants."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from msgspec import UNSET

from k8sel.errors import Problem
from k8sel.facts.launchers import LAUNCHERS
from k8sel.facts.platforms import Platform
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.rules.common import rules_in
from k8sel.wording import as_list, quote, warning

_SHELLS = ("sh", "bash", "dash", "zsh", "ash", "busybox")
_BY_A_SHELL = "write its value, or command: [sh, -c, 'exec python train.py --lr $LR']"
_VARIABLE = r"\$(\w+|\{\w+\})"
_OPTION = r"--?[A-Za-z][\w-]*\s+\S.*"  # an option and its value in one word
_SCRIPT = r"\S+\.(py|sh)\s+\S.*"  # a script and its arguments in one word
_TYPOGRAPHIC = {"“": '"', "”": '"', "„": '"', "‘": "'", "’": "'", "–": "--", "—": "--", "\u00a0": " "}
_SECRET_NAME = r"(.*_)?(TOKEN|SECRET|PASSWORD|PASSWD|(API|ACCESS|SECRET|PRIVATE)_KEY|SECRET_ACCESS_KEY|CREDENTIALS?)"
# huggingface.co, Hub, security tokens; docs.github.com, token formats; docs.gitlab.com; docs.aws.amazon.com, IAM ids
_SECRET_VALUE = r"(hf_|ghp_|gho_|ghs_|github_pat_|glpat-|sk-|xox[abp]-|AKIA)[\w-]{12,}"


def no_shell_expands(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of ``$NAME`` in a command without a shell: the program gets the dollar sign."""
    own = {entry.name for entry in job.spec.env}
    for index, word in _words(job):
        found = re.search(_VARIABLE, word.replace("$$", ""))
        if found:
            name = found[1].strip("{}")
            message = f"no shell expands {found[0]} in {quote(word)}, and the program gets it as it is"
            hint = f"write $({name}), which is replaced by the value in env" if name in own else _BY_A_SHELL
            yield warning(("spec", "command", index), message, hint)


def several_words(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of an option and its value, or a script and its arguments, in one word of the command."""
    for index, word in _words(job):
        if index and re.fullmatch(f"{_OPTION}|{_SCRIPT}", word):
            message = f"{quote(word)} is one argument with spaces, and the program gets it as one"
            yield warning(("spec", "command", index), message, f"write its words as items: {as_list(word)}")


def _words(job: CompleteJob) -> list[tuple[int, str]]:
    """Returns the words of the command with their places; none of a shell's command, which is a script."""
    command = job.spec.command
    return [] if PurePosixPath(command[0]).name in _SHELLS else list(enumerate(command))


def typographic_signs(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of a word of the command that begins or ends with a quotation mark or a dash of a word processor."""
    for index, word in enumerate(job.spec.command):
        if word[:1] in _TYPOGRAPHIC or word[-1:] in _TYPOGRAPHIC:
            plain = "".join(_TYPOGRAPHIC.get(sign, sign) for sign in word).strip("\"' ")
            message = f"{quote(word)} has typographic signs, which a word processor or a web page writes"
            yield warning(("spec", "command", index), message, f"write {plain}")


def unused_volumes(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of a volume that no mount uses: no process sees it."""
    mounted = [mount.get("name") for mount in job.spec.volume_mounts]
    for index, volume in enumerate(job.spec.volumes):
        name = volume.get("name")
        if isinstance(name, str) and name not in mounted:
            message = f"no volumeMount uses the volume {quote(name)}, so no process sees it"
            yield warning(("spec", "volumes", index), message, f"volumeMounts: [{{name: {name}, mountPath: /data}}]")


def secrets_in_the_file(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of a secret written as a variable's value: all who may read the job's objects can read it."""
    for index, entry in enumerate(job.spec.env if platform.operator_env and not platform.exposes else ()):
        if entry.value is not UNSET and is_secret(entry.name, entry.value):
            message = f"the value of {entry.name} looks like a secret, and all who may read the job can read it"
            yield warning(("spec", "env", index, "value"), message, from_a_secret(entry.name))


def is_secret(name: str, value: str) -> bool:
    """Reports whether a variable looks like a secret, by its name or by the form of its value."""
    literal = bool(value) and "$(" not in value and not value.startswith("/")
    return literal and bool(re.fullmatch(_SECRET_NAME, name.upper()) or re.fullmatch(_SECRET_VALUE, value))


def from_a_secret(name: str) -> str:
    """Returns the field that takes the variable's value from a Secret."""
    secret = name.lower().replace("_", "-").strip("-")
    return f"valueFrom: {{secretKeyRef: {{name: {secret}, key: {name}}}}}"


def one_process_for_several_devices(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of a launcher that starts one process on each of several nodes, where a node has several devices."""
    spec = job.spec
    if LAUNCHERS[spec.launcher].starts_one and spec.nodes > 1 and len(spec.accelerator.devices) > 1:
        number = len(spec.accelerator.devices)
        message = f"launcher {spec.launcher} starts one process on each node, and it sees all {number} devices"
        yield warning(("spec", "launcher"), message, "write launcher: torchrun, which starts one for each device")


def no_device_of_the_type(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of ``count: 0``, which hides the devices; ``devices: []`` says the same on purpose."""
    if job.spec.accelerator.zero:
        message = f"the job uses no {job.spec.accelerator.type} device, and hides those of the node"
        yield warning(("spec", "accelerator", "count"), message, "write count: 1 or more, or devices: [] on purpose")


RULES = rules_in(globals())

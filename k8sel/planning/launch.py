"""Builds the launchers' command lines around the user's command. Pure; ``entry`` gives the words in front of them.

The rows of PROGRAMS have the words. On Kubernetes an operator's PET_ variables describe a node's group. On one machine
(`k8sel run`) there is no operator, and the group is the one node.
"""

from __future__ import annotations

from collections.abc import Mapping

from k8sel.facts.launchers import LAUNCHERS, PROGRAMS, Program
from k8sel.facts.platforms import Platform
from k8sel.jobfile.complete import CompleteSpec
from k8sel.planning import mpi
from k8sel.planning.env import reference
from k8sel.planning.plan import Argv

FOLDER = "/k8sel"  # where the entrypoint is mounted
BROUGHT = ("/bin/sh", f"{FOLDER}/entrypoint")
BUILT_IN = "k8sel-entrypoint"
# A node's place in its group: the name in a program's options -> the operator's variable, and the value without one.
PLACE = {
    "{rank}": ("PET_NODE_RANK", "0"),
    "{address}": ("PET_MASTER_ADDR", "127.0.0.1"),
    "{port}": ("PET_MASTER_PORT", "0"),
}


def entry(spec: CompleteSpec, platform: Platform, mode: str = "") -> Argv:
    """Returns the words that start the entrypoint in ``mode`` (default: node); () if the job has no entrypoint."""
    if spec.entrypoint.mode == "none":
        return ()
    built_in = not platform.in_container or spec.entrypoint.mode == "image"
    program = (BUILT_IN,) if built_in else BROUGHT
    return (*program, mode) if mode else program


def before(spec: CompleteSpec, platform: Platform, mode: str = "") -> Argv:
    """Returns the words of ``entry`` with the ``--`` that separates them from a command."""
    words = entry(spec, platform, mode)
    return (*words, "--") if words else ()


def launch(spec: CompleteSpec, platform: Platform, fixed_env: Mapping[str, str]) -> Argv:
    """Returns the launcher's whole command line; ``fixed_env``: variables of the ranks that no entrypoint sets."""
    row = LAUNCHERS[spec.launcher]
    if row.uses_mpi:
        return mpi.launch(spec, platform, before(spec, platform, "rank"), fixed_env)
    program = row.program if spec.accelerator.devices else row.program_without_devices
    return _started(PROGRAMS[program], spec, platform) if program else spec.command


def starts_mode_rank(spec: CompleteSpec, platform: Platform) -> bool:
    """Reports whether the launcher starts each rank through the entrypoint's mode ``rank``."""
    row = LAUNCHERS[spec.launcher]
    isolated = not row.starts_one and spec.accelerator.isolation == "process"
    return bool(entry(spec, platform)) and (row.uses_mpi or isolated)


def _started(program: Program, spec: CompleteSpec, platform: Platform) -> Argv:
    """Returns the program's command line around the command of one process."""
    total, restarts = spec.nodes * spec.processes_per_node, spec.policy.max_restarts
    place = {name: reference(variable) if platform.operator_env else alone for name, (variable, alone) in PLACE.items()}
    values = {**place, "{processes}": str(spec.processes_per_node), "{total}": str(total), "{nodes}": str(spec.nodes)}
    command = (before(spec, platform, "rank") if starts_mode_rank(spec, platform) else ()) + spec.command
    return (
        *program.words,
        *(program.several if total > 1 else ()),
        *(() if platform.operator_env else program.alone),
        *(values.get(word, word) for word in program.options),
        *((program.restarts, str(restarts)) if restarts else ()),
        *_script(_plain(command) if program.always_agent or total > 1 else command, program.no_python),
    )


def _script(command: Argv, no_python: str) -> Argv:
    """Returns ``command`` in the form of torchrun and accelerate: a script, a module, or any other program."""
    program, *arguments = command
    option, words = [no_python], list(command)
    if program in ("python", "python3") and arguments:
        if not arguments[0].startswith("-"):
            option, words = [], arguments
        elif arguments[0] == "-m" and len(arguments) > 1:
            option, words = ["-m"], arguments[1:]
    first, *tail = words
    return (*option, first, *(("--",) if tail[:1] == ["--"] else ()), *tail)  # argparse drops a -- after the first word


def _plain(command: Argv) -> Argv:
    """Returns ``command`` escaped for torch's agent, which expands ``${local_rank}`` and reads ``$$`` as ``$``.

    The agent does not expand the program's own name:
    https://github.com/pytorch/pytorch/blob/v2.9.0/torch/distributed/elastic/utils/api.py (``macros.substitute``)
    """
    program, *arguments = command
    read = ("$$", "$local_rank", "${local_rank}")
    return (program, *(word.replace("$", "$$") if any(map(word.__contains__, read)) else word for word in arguments))

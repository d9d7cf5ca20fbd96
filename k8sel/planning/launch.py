"""Builds the launchers' command lines around the user's command. Pure; ``entry`` gives the words in front of them.

On Kubernetes, torchrun reads the operator's PET_ variables, and a flag would override them. So only the number of
processes is a flag. On one machine (`k8sel run`) there is no operator, so this module adds the flags of the group.
"""

from __future__ import annotations

from collections.abc import Mapping

from k8sel.facts.launchers import LAUNCHERS
from k8sel.facts.platforms import Platform
from k8sel.jobfile.complete import CompleteSpec
from k8sel.planning import mpi
from k8sel.planning.env import reference
from k8sel.planning.plan import Argv

FOLDER = "/k8sel"  # where the entrypoint is mounted
BUILT_IN = "k8sel-entrypoint"


def entry(spec: CompleteSpec, platform: Platform, mode: str = "") -> Argv:
    """Returns the words that start the entrypoint in ``mode`` (default: node); () if the job has no entrypoint."""
    if spec.entrypoint.mode == "none":
        return ()
    built_in = not platform.in_container or spec.entrypoint.mode == "image"
    program = (BUILT_IN,) if built_in else ("/bin/sh", f"{FOLDER}/entrypoint")
    return (*program, mode) if mode else program


def before(spec: CompleteSpec, platform: Platform, mode: str = "") -> Argv:
    """Returns the words of ``entry`` with the ``--`` that separates them from a command."""
    words = entry(spec, platform, mode)
    return (*words, "--") if words else ()


def launch(spec: CompleteSpec, platform: Platform, fixed_env: Mapping[str, str]) -> Argv:
    """Returns the launcher's whole command line; ``fixed_env``: variables of the ranks that no entrypoint sets."""
    row = LAUNCHERS[spec.launcher]
    program = row.program if spec.accelerator.devices else row.program_without_devices
    return _PROGRAMS[program](spec, platform, fixed_env)


def starts_mode_rank(spec: CompleteSpec, platform: Platform) -> bool:
    """Reports whether the launcher starts each rank through the entrypoint's mode ``rank``."""
    row = LAUNCHERS[spec.launcher]
    isolated = not row.starts_one and spec.accelerator.isolation == "process"
    return bool(entry(spec, platform)) and (row.uses_mpi or isolated)


def _alone(spec: CompleteSpec, platform: Platform, fixed_env: Mapping[str, str]) -> Argv:
    return spec.command


def _mpirun(spec: CompleteSpec, platform: Platform, fixed_env: Mapping[str, str]) -> Argv:
    return mpi.launch(spec, platform, before(spec, platform, "rank"), fixed_env)


def _process(spec: CompleteSpec, platform: Platform) -> Argv:
    """Returns the command of one process; the entrypoint precedes it if each process gets its own mask."""
    return (before(spec, platform, "rank") if starts_mode_rank(spec, platform) else ()) + spec.command


def _torchrun(spec: CompleteSpec, platform: Platform, fixed_env: Mapping[str, str]) -> Argv:
    command = _process(spec, platform)
    group = ("--standalone",) if not platform.operator_env else ()
    processes = ("--nproc-per-node", str(spec.processes_per_node))
    return (
        "torchrun",
        *group,
        *processes,
        *_restarts(spec, "--max-restarts"),
        *_script(_plain(command), "--no-python"),
    )


def _accelerate(spec: CompleteSpec, platform: Platform, fixed_env: Mapping[str, str]) -> Argv:
    """Sets every number: accelerate reads a missing one from PET_ variables and from files of the image."""
    command = _process(spec, platform)
    nodes, processes = spec.nodes, spec.processes_per_node
    local = not platform.operator_env
    total = nodes * processes
    return (
        *("accelerate", "launch"),
        *(("--multi_gpu",) if total > 1 else ()),  # means any accelerator; refused for one process
        *("--num_processes", str(total)),  # of all nodes together
        *("--num_machines", str(nodes)),
        *("--machine_rank", "0" if local else reference("PET_NODE_RANK")),
        *("--main_process_ip", "127.0.0.1" if local else reference("PET_MASTER_ADDR")),
        *("--main_process_port", "0" if local else reference("PET_MASTER_PORT")),
        *("--rdzv_backend", "static", "--same_network"),
        *("--gpu_ids", "all"),  # leaves the mask alone
        *_restarts(spec, "--max_restarts"),
        *_script(_plain(command) if total > 1 else command, "--no_python"),  # one is started without an agent
    )


def _restarts(spec: CompleteSpec, flag: str) -> Argv:
    return (flag, str(spec.policy.max_restarts)) if spec.policy.max_restarts else ()


def _script(command: Argv, no_python: str) -> Argv:
    """Returns ``command`` in the form of torchrun and accelerate: a script, a module, or any other program."""
    program, *arguments = command
    if program in ("python", "python3") and arguments:
        if not arguments[0].startswith("-"):
            return _positional(arguments)
        if arguments[0] == "-m" and len(arguments) > 1:
            return ("-m", *_positional(arguments[1:]))
    return (no_python, *_positional(list(command)))


def _plain(command: Argv) -> Argv:
    """Returns ``command`` escaped for torch's agent, which expands ``${local_rank}`` and reads ``$$`` as ``$``.

    The agent does not expand the program's own name:
    https://github.com/pytorch/pytorch/blob/v2.9.0/torch/distributed/elastic/utils/api.py (``macros.substitute``)
    """
    program, *arguments = command
    read = ("$$", "$local_rank", "${local_rank}")
    return (program, *(word.replace("$", "$$") if any(map(word.__contains__, read)) else word for word in arguments))


def _positional(words: list[str]) -> Argv:
    """Returns ``words`` escaped for argparse, which drops a ``--`` directly after the first word."""
    head, *tail = words
    return (head, "--", *tail) if tail[:1] == ["--"] else (head, *tail)


_PROGRAMS = {None: _alone, "mpirun": _mpirun, "torchrun": _torchrun, "accelerate": _accelerate}  # Launcher.program

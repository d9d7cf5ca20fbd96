"""The last step: this process becomes the command. Same pid, same signals, same exit status."""

from __future__ import annotations

import os

from k8sel.entrypoint.lean import signal
from k8sel.entrypoint.record import TYPE_CHECKING
from k8sel.entrypoint.stop import Stop

if TYPE_CHECKING:
    from typing import NoReturn


def find(command: list[str], environ: dict[str, str]) -> str:
    """The path of the command's program. Raises Stop when there is none: retrying would not bring it into the image."""
    if not command:
        raise Stop(["no command to start: k8sel-entrypoint [MODE] [--] COMMAND..."])
    folders = [""] if "/" in command[0] else environ.get("PATH", os.defpath).split(":")
    for path in (os.path.join(folder, command[0]) for folder in folders):
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    searched = "" if "/" in command[0] else f" (PATH is {environ.get('PATH', 'not set')})"
    raise Stop([f"{command[0]} is not in the image, or cannot be executed{searched}"])


def become(program: str, command: list[str], environ: dict[str, str]) -> NoReturn:
    """Executes ``program`` as ``command``. Raises Stop if the kernel refuses it."""
    for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):  # Python ignores them, and exec would hand that on
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execve(program, command, environ)
    except OSError as error:
        raise Stop([f"{command[0]} cannot be executed: {error.strerror}"]) from None

"""The last step: this process becomes the command. Same pid, same signals, same exit status."""

from __future__ import annotations

import os
import signal

from k8sel.entrypoint.record import TYPE_CHECKING
from k8sel.entrypoint.stop import Stop

if TYPE_CHECKING:
    from typing import NoReturn


def require(command: list[str], environ: dict[str, str]) -> None:
    """Raises Stop when there is no command, or its program is not in the image: retrying would not bring it there."""
    if not command:
        raise Stop(["no command to start: k8sel-entrypoint [MODE] [--] COMMAND..."])
    if not _is_there(command[0], environ):
        path = "" if "/" in command[0] else f" (PATH is {environ.get('PATH', 'not set')})"
        raise Stop([f"{command[0]} is not in the image, or cannot be executed{path}"])


def _is_there(program: str, environ: dict[str, str]) -> bool:
    folders = [""] if "/" in program else os.get_exec_path(environ)
    paths = (os.path.join(folder, program) for folder in folders)
    return any(os.path.isfile(path) and os.access(path, os.X_OK) for path in paths)


def become(command: list[str], environ: dict[str, str]) -> NoReturn:
    """Executes ``command``. Raises Stop if the kernel refuses it."""
    for name in ("SIGPIPE", "SIGXFZ", "SIGXFSZ"):  # Python ignores them, and exec would hand that on
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_DFL)
    try:
        os.execvpe(command[0], command, environ)
    except OSError as error:
        raise Stop([f"{command[0]} cannot be executed: {error.strerror}"]) from None

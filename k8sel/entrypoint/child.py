"""Runs one program with a time limit, and ends it before this process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from types import FrameType

from k8sel.entrypoint.lean import TYPE_CHECKING, record
from k8sel.entrypoint.machine import read
from k8sel.entrypoint.report import Stop

if TYPE_CHECKING:
    from typing import IO

_TAIL = 1500  # characters of stderr in a message


@record(frozen=True)
class Ended:
    """How a program ended."""

    status: int | None  # None: out of time
    output: bytes
    errors: str
    seconds: float  # its time limit

    def why(self) -> str:
        """Returns the end and the error text, in words."""
        return f"{self.how()}: {self._tail()}"

    def how(self) -> str:
        """Returns the end only: exit status, signal or timeout."""
        if self.status is None:
            return f"no end in {self.seconds:g} s"
        return f"exit status {self.status}" if self.status >= 0 else f"ended by {signal.Signals(-self.status).name}"

    def _tail(self) -> str:
        text = self.errors.strip()
        return ("..." + text[-_TAIL:] if len(text) > _TAIL else text) or "nothing on stderr"


class Signals:
    """A context in which SIGTERM and SIGINT end the child and then this process.

    As pid 1, this process would otherwise ignore SIGTERM, and the child would not get the signal.
    """

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGINT)}

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


_children: list[subprocess.Popen[bytes] | None] = []  # None: being started
_received: list[int] = []  # signals


def _end(number: int, frame: FrameType | None) -> None:
    _received.append(number)
    if None in _children:
        return  # run() ends the child as soon as it has started
    for child in _children:
        if child:
            child.terminate()
    os._exit(128 + number)


def run(command: list[str], environ: dict[str, str], seconds: float) -> Ended:
    """Runs the command, within ``Signals``. Raises Stop if it cannot be executed.

    The output goes into files, not pipes: a shared ssh connection stays open after the command, and keeps a pipe open.
    A reader of that pipe would wait.
    """
    with _memory() as output, _memory() as errors:
        before = _adopted()
        _children[:] = [None]
        try:
            child = subprocess.Popen(
                command, env=environ, stdin=subprocess.DEVNULL, stdout=output, stderr=errors, start_new_session=True
            )
        except OSError as error:
            _children.clear()
            raise Stop([f"{command[0]} cannot be executed: {error.strerror}"]) from None
        _children[:] = [child]
        if _received:
            _end(_received[0], None)
        status = _wait(child, seconds)
        _leave_none(before)
        return Ended(status, _bytes(output), _bytes(errors).decode(errors="replace"), seconds)


def _wait(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Returns the exit status; None after a timeout, when the child and its process group were killed."""
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return None
    finally:
        _children.clear()


def _leave_none(before: set[int]) -> None:
    """Kills the processes that the child left behind. As pid 1, this process becomes their parent.

    The program that this process becomes would inherit them. hydra takes the end of any child for the end of its own
    (src/pm/hydra/lib/tools/bootstrap/utils/bscu_wait.c): a leftover ssh that ends later would then end the job.
    """
    while left := _adopted() - before:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        for pid in left:
            os.waitpid(pid, 0)


def _adopted() -> set[int]:
    """Returns this process's children, including dead ones; none if the kernel does not list them."""
    own = os.getpid()
    return {int(pid) for pid in read(f"/proc/{own}/task/{own}/children").split()}


def _memory() -> IO[bytes]:
    """Opens a file that needs no folder: a container may have no writable folder."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("k8sel"), "w+b")
    return tempfile.TemporaryFile()


def _bytes(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()

"""One program from its start to its end, which neither outlives this process nor is waited for beyond a time."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from types import FrameType

from k8sel.entrypoint.machine import read
from k8sel.entrypoint.record import TYPE_CHECKING, record
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
    seconds: float  # that it had

    def why(self) -> str:
        """The end and the error text, in words."""
        return f"{self.how()}: {self._tail()}"

    def how(self) -> str:
        """The end alone: exit status, signal or timeout."""
        if self.status is None:
            return f"no end in {self.seconds:g} s"
        return f"exit status {self.status}" if self.status >= 0 else f"ended by {signal.Signals(-self.status).name}"

    def _tail(self) -> str:
        text = self.errors.strip()
        return ("..." + text[-_TAIL:] if len(text) > _TAIL else text) or "nothing on stderr"


class Signals:
    """While it holds, SIGTERM and SIGINT end the child and then this process.

    As pid 1, nobody else would end this process at SIGTERM, or hand the signal to the child.
    """

    def __enter__(self) -> None:
        self._before = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGINT)}

    def __exit__(self, *error: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


_children: list[subprocess.Popen[bytes] | None] = []  # None: being started
_asked: list[int] = []  # signals to end


def _end(number: int, frame: FrameType | None) -> None:
    _asked.append(number)
    if None in _children:
        return  # it ends as soon as the child is known
    for child in _children:
        if child:
            child.terminate()
    os._exit(128 + number)


def run(command: list[str], environ: dict[str, str], seconds: float) -> Ended:
    """Runs the command, within ``Signals``. Raises Stop where it cannot be executed.

    Its output goes into files, not pipes: an ssh connection that is kept open for later keeps a pipe open too, and its
    reader waiting.
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
        if _asked:
            _end(_asked[0], None)
        status = _wait(child, seconds)
        _leave_none(before)
        return Ended(status, _bytes(output), _bytes(errors).decode(errors="replace"), seconds)


def _wait(child: subprocess.Popen[bytes], seconds: float) -> int | None:
    """Its exit status; None when it had to be ended, with all that it has started."""
    try:
        return child.wait(seconds)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return None
    finally:
        _children.clear()


def _leave_none(before: set[int]) -> None:
    """Ends what the child has left behind, where that is ours now: as pid 1, we get it.

    The program that this process becomes would wait for it, too: hydra takes the end of any child for that of one of
    its own (src/pm/hydra/lib/tools/bootstrap/utils/bscu_wait.c), and an ssh that is late for a node then ends the job.
    """
    while left := _adopted() - before:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        for pid in left:
            os.waitpid(pid, 0)


def _adopted() -> set[int]:
    """This process's children, dead ones among them; none where the kernel does not list them."""
    own = os.getpid()
    return {int(pid) for pid in read(f"/proc/{own}/task/{own}/children").split()}


def _memory() -> IO[bytes]:
    """A file that needs no folder: a container may have none that can be written."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("k8sel"), "w+b")
    return tempfile.TemporaryFile()


def _bytes(file: IO[bytes]) -> bytes:
    file.seek(0)
    return file.read()

"""Calls a function where it can neither hang nor kill this process: in a forked child, with a time limit.

A vendor's library is code that we did not write, in a driver's state that we do not know. Nothing is left behind:
the child is reaped, and killed first if it takes too long.
"""

from __future__ import annotations

import os
import select
import time

from k8sel.entrypoint.lean import TYPE_CHECKING, signal

if TYPE_CHECKING:
    from typing import Any, Callable, NoReturn

_SUCCEEDED, _FAILED = b"+", b"-"


class Failed(Exception):
    """The call gave no answer; the text is the reason: its own error, the signal that ended it, or the time limit."""


def call(function: Callable[[], str], seconds: float) -> str:
    """Calls ``function`` in a child process. Raises Failed when it raises, dies or takes over ``seconds``."""
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        signal.alarm(int(seconds) + 2)  # ends the child if this process is killed first
        _run(function, writer)
    os.close(writer)
    before = _on_sigterm(lambda number, frame: _end_both(child, number))
    try:
        answer = _read_all(reader, seconds)
    finally:
        os.close(reader)
        status = _end(child)
        if before is not None:
            _on_sigterm(before)
    return _judge(answer, status, seconds)


def _on_sigterm(handler: Any) -> Any:
    """Sets the handler of SIGTERM and returns the old one. Does nothing in a thread, which may not set handlers."""
    try:
        return signal.signal(signal.SIGTERM, handler)
    except ValueError:
        return None


def _end_both(child: int, number: int) -> None:
    """Ends the child and this process: pid 1 would ignore SIGTERM, and the command has not started yet."""
    os.kill(child, signal.SIGKILL)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)
    os._exit(128 + number)


def _run(function: Callable[[], str], writer: int) -> NoReturn:
    """Runs in the child. The first byte tells if text or an error follows. Never returns to the caller's stack."""
    try:
        try:
            answer = _SUCCEEDED + function().encode()
        except BaseException as error:
            answer = _FAILED + str(error).encode(errors="backslashreplace")
        while answer:
            answer = answer[os.write(writer, answer) :]
    finally:
        os._exit(0)


def _read_all(reader: int, seconds: float) -> bytes | None:
    """Reads until the child closes its end; returns None if that takes longer than ``seconds``."""
    parts: list[bytes] = []
    deadline = time.monotonic() + seconds
    while True:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([reader], [], [], left)[0]:
            return None
        part = os.read(reader, 65536)
        if not part:
            return b"".join(parts)
        parts.append(part)


def _end(child: int) -> int:
    """Returns the child's wait status. Kills a running child; gives up after a second if it is stuck in the kernel.

    The wait has a limit: a child closes its devices when it exits, and to close a broken device can take forever.
    """
    for kill in (False, True):
        if kill:
            os.kill(child, signal.SIGKILL)
        for step in range(10):  # 1 s altogether; a child that gave its answer is gone in less than 1 ms
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status
            time.sleep(0.001 * 2**step if kill else 0.0002 * 2 ** min(step, 5))
    return 0


def _judge(answer: bytes | None, status: int, seconds: float) -> str:
    if answer is None:
        raise Failed(f"no answer in {seconds:g} s")
    if answer.startswith(_SUCCEEDED):
        return answer[1:].decode()
    if answer.startswith(_FAILED):
        raise Failed(answer[1:].decode(errors="replace"))
    if os.WIFSIGNALED(status):
        from signal import Signals

        raise Failed(f"it crashed ({Signals(os.WTERMSIG(status)).name})")
    raise Failed("it ended without an answer")

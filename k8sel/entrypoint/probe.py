"""Runs the gate's probe command, one check on each node, and reads the reports from what it prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
from types import FrameType

from k8sel.entrypoint import report
from k8sel.entrypoint.launch import behind_env
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.record import TYPE_CHECKING
from k8sel.entrypoint.stop import MISMATCH, OUTSIDE, Stop

if TYPE_CHECKING:
    from typing import IO, Any

SECONDS = 300.0  # for one attempt: sshd on a large job's last node may be slow to come up
# A worker that is ready may not be in the cluster's DNS yet: CoreDNS keeps a "no such name" for 5 s and more.
_PAUSES = (2.0, 6.0)
_NOT_STARTED = (126, 127)  # as env and shells say that a program is not there
_TAIL = 1500  # characters of stderr in a message


def gather(expectation: Expectation, environ: dict[str, str]) -> list[dict[str, Any]]:
    """The nodes' reports. Raises Stop, status 1, when the probe failed and no node answered."""
    # As pid 1, nobody else would end this process at SIGTERM, or hand the signal to the child.
    before = {number: signal.signal(number, _end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        return _gathered(list(expectation.probe), environ)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _gathered(command: list[str], environ: dict[str, str]) -> list[dict[str, Any]]:
    name = behind_env(command)[0]
    for pause in (*_PAUSES, None):
        status, output, errors = _run(command, environ)
        reports = parse(output)
        if reports or pause is None or status in (None, *_NOT_STARTED):
            break
        report.say(f"{name} reached no node ({_ended(status)}), again in {pause:g} s")
        time.sleep(pause)
    if not reports:
        kind = MISMATCH if status in _NOT_STARTED else OUTSIDE
        raise Stop([f"{name} could not check the nodes: {_ended(status)}: {_tail(errors)}"], kind)
    if status:
        report.say(f"{name}: {_ended(status)}: {_tail(errors)}")
    return reports


def parse(output: str) -> list[dict[str, Any]]:
    """Reports in a command's output, wherever in their line they start, and whatever else stands beside them.

    Some MPIs tag each line with its rank, and the lines of two nodes may have become one.
    """
    decoder = json.JSONDecoder()
    reports = []
    for text in output.split(report.MARK)[1:]:
        try:
            found, _ = decoder.raw_decode(text.lstrip())
        except (ValueError, RecursionError):
            continue  # torn: its node counts as missing
        if _is_report(found):
            reports.append(found)
    return reports


def _is_report(found: Any) -> bool:
    """Whether it is as ours are. What may be left out is empty."""
    if not isinstance(found, dict) or not isinstance(found.get("node"), str):
        return False
    texts = [found.setdefault(name, []) for name in ("problems", "notes", "names")]
    devices = found.setdefault("devices", [])
    return isinstance(devices, list) and all(_are_texts(each) for each in (*texts, *devices))


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


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


def _run(command: list[str], environ: dict[str, str]) -> tuple[int | None, str, str]:
    """Exit status (None: out of time), stdout and stderr.

    Into files, not pipes: an ssh connection that is kept open for later keeps a pipe open too, and its reader waiting.
    """
    with _memory() as output, _memory() as errors:
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
        return _wait(child), _text(output), _text(errors)


def _wait(child: subprocess.Popen[bytes]) -> int | None:
    """Its exit status; None when it had to be ended, with all that it has started."""
    try:
        return child.wait(SECONDS)
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        return None
    finally:
        _children.clear()


def _memory() -> IO[bytes]:
    """A file that needs no folder: a container may have none that can be written."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("k8sel"), "w+b")
    return tempfile.TemporaryFile()


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")


def _ended(status: int | None) -> str:
    if status is None:
        return f"no end in {SECONDS:g} s"
    return f"exit status {status}" if status >= 0 else f"ended by {signal.Signals(-status).name}"


def _tail(errors: str) -> str:
    text = errors.strip()
    return ("..." + text[-_TAIL:] if len(text) > _TAIL else text) or "nothing on stderr"

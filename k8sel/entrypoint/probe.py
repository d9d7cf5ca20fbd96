"""Runs the gate's probe command, one check on each node, and reads the reports from what it prints."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from types import FrameType

from k8sel.entrypoint import report
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.record import TYPE_CHECKING
from k8sel.entrypoint.stop import MISMATCH, OUTSIDE, Stop

if TYPE_CHECKING:
    from typing import Any, NoReturn

SECONDS = 300.0  # for one attempt: sshd on a large job's last node may be slow to come up
# A worker that is ready may not be in the cluster's DNS yet: CoreDNS keeps a "no such name" for 5 s and more.
_PAUSES = (2.0, 6.0)
_NOT_STARTED = (126, 127)  # as env and shells say that a program is not there
_TAIL = 1500  # characters of stderr in a message


def gather(expectation: Expectation, environ: dict[str, str]) -> list[dict[str, Any]]:
    """The nodes' reports. Raises Stop, status 1, when the probe failed and no node answered."""
    command = list(expectation.probe)
    name = _program(command)
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


def _program(command: list[str]) -> str:
    """What the command starts, without an ``env NAME=VALUE...`` in front."""
    words = (word for word in command if word != "env" and "=" not in word)
    return next(words, command[0])


def parse(output: str) -> list[dict[str, Any]]:
    """Reports in a command's output, wherever in their line they start: some MPIs tag each line with its rank."""
    reports = []
    for line in output.splitlines():
        _, mark, text = line.partition(report.MARK)
        if not mark:
            continue
        try:
            found = json.loads(text)
        except ValueError:
            continue  # torn: its node counts as missing
        if isinstance(found, dict):
            reports.append(found)
    return reports


def _run(command: list[str], environ: dict[str, str]) -> tuple[int | None, str, str]:
    """Exit status (None: out of time), stdout and stderr. As pid 1, nobody else would hand SIGTERM to the child."""
    try:
        child = subprocess.Popen(
            command, env=environ, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
    except OSError as error:
        raise Stop([f"{command[0]} cannot be executed: {error.strerror}"]) from None

    def end(number: int, frame: FrameType | None) -> NoReturn:
        child.terminate()
        sys.stderr.flush()
        os._exit(128 + number)

    before = {number: signal.signal(number, end) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        output, errors = child.communicate(timeout=SECONDS)
        status: int | None = child.returncode
    except subprocess.TimeoutExpired:
        child.kill()
        output, errors = child.communicate()
        status = None
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return status, output.decode(errors="replace"), errors.decode(errors="replace")


def _ended(status: int | None) -> str:
    if status is None:
        return f"no end in {SECONDS:g} s"
    return f"exit status {status}" if status >= 0 else f"ended by {signal.Signals(-status).name}"


def _tail(errors: str) -> str:
    text = errors.strip()
    return ("..." + text[-_TAIL:] if len(text) > _TAIL else text) or "nothing on stderr"

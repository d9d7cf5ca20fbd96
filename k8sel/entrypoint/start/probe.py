"""Runs the gate's probe command, one check on each node, and reads the reports from what it prints."""

from __future__ import annotations

import json
import time

from k8sel.entrypoint import child, report
from k8sel.entrypoint.launch import behind_env
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.record import TYPE_CHECKING
from k8sel.entrypoint.stop import MISMATCH, OUTSIDE, Stop

if TYPE_CHECKING:
    from typing import Any

SECONDS = 300.0  # for one attempt: sshd on a large job's last node may be slow to come up
# A worker that is ready may not be in the cluster's DNS yet: CoreDNS keeps a "no such name" for 5 s and more.
_PAUSES = (2.0, 6.0)
_NOT_STARTED = (126, 127)  # as env and shells say that a program is not there


def gather(expectation: Expectation, environ: dict[str, str]) -> list[dict[str, Any]]:
    """The nodes' reports. Raises Stop, status 1, when the probe failed and no node answered."""
    with child.Signals():
        return _gathered(list(expectation.probe), environ)


def _gathered(command: list[str], environ: dict[str, str]) -> list[dict[str, Any]]:
    name = behind_env(command)[0]
    for pause in (*_PAUSES, None):
        ended = child.run(command, environ, SECONDS)
        reports = parse(ended.output.decode(errors="replace"))
        if reports or pause is None or ended.status in (None, *_NOT_STARTED):
            break
        report.say(f"{name} reached no node ({ended.how()}), again in {pause:g} s")
        time.sleep(pause)
    if not reports:
        kind = MISMATCH if ended.status in _NOT_STARTED else OUTSIDE
        raise Stop([f"{name} could not check the nodes: {ended.why()}"], kind)
    if ended.status:
        report.say(f"{name}: {ended.why()}")
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

"""MPI's gate: mpirun checks each node once; the real mpirun starts only if all nodes pass.

The check runs before any rank exists. hydra keeps the other ranks alive when one dies before MPI_Init, so a job that
only checks inside its ranks would hang. A node's check always ends with 0 and prints its result as one line.
"""

from __future__ import annotations

import json
import time

from k8sel.entrypoint import child, report
from k8sel.entrypoint.checks import Case, libraries, look
from k8sel.entrypoint.checks.survey import stop_or_warn, survey
from k8sel.entrypoint.launch import behind_env
from k8sel.entrypoint.lean import TYPE_CHECKING
from k8sel.entrypoint.machine import Machine, node_name, read
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.report import MARK, MISMATCH, OUTSIDE, Stop

if TYPE_CHECKING:
    from typing import Any, Iterable

_SHOWN = 8  # nodes listed in a message
SECONDS = 300.0  # for one attempt: in a large job, sshd on the last node may start late
# A worker that is ready may not be in the cluster's DNS yet: CoreDNS keeps a "no such name" for 5 s and more.
_PAUSES = (2.0, 6.0)
_NOT_STARTED = (126, 127)  # exit statuses of env and shells for a program that is not there


def check_here(expectation: Expectation, machine: Machine, environ: dict[str, str]) -> dict[str, Any]:
    """Mode ``check``: returns this node's report. Raises Stop if it could not look for devices."""
    case = look(expectation, machine, environ)
    finding = survey(case, "check")
    return {
        "node": case.name,
        "ok": not finding.problems,
        "problems": finding.problems,
        "notes": finding.notes,
        "how": case.found.how,
        "devices": [[device.pci, device.uuid] for device in case.found.devices],
        "names": sorted({device.name for device in case.found.devices}),
    }


def failed(environ: dict[str, str], problems: list[str]) -> dict[str, Any]:
    """Returns the report of a node that could not look for devices."""
    return {"node": node_name(environ), "ok": False, "problems": problems}


def wait_for_all(expectation: Expectation, environ: dict[str, str], command: list[str]) -> None:
    """Mode ``gate``: returns if every node has the devices that the job expects. Raises Stop otherwise."""
    _settle_here(expectation, environ, command)
    if expectation.check == "off" or not expectation.probe:
        report.say("the nodes are not checked before the ranks start (check: off, or no probe command)")
        return
    with child.Signals():
        reports = _gathered(list(expectation.probe), environ)
    reports.sort(key=lambda each: _natural(each["node"]))
    for each in reports:
        report.say(_found(each))
    stop_or_warn([*_missing(reports, expectation), *_problems(reports)], expectation.check)


def _settle_here(expectation: Expectation, environ: dict[str, str], command: list[str]) -> None:
    """Checks MPI and the ranks' program in the launcher's image, which is also the image of the nodes."""
    program = libraries.of_ranks(expectation, command, environ) if expectation.backend else None
    finding = survey(Case(expectation, environ, program=program, command=command), "gate")
    for note in finding.notes:
        report.say(note)
    stop_or_warn(list(finding.problems), expectation.check)


def _found(each: dict[str, Any]) -> str:
    """Formats one node's report as a line."""
    devices = "; ".join(", ".join(part for part in device if part) or "unknown" for device in each.get("devices", ()))
    names = ", ".join(name for name in each.get("names", ()) if name)
    what = " ".join(part for part in (names, f"[{devices}]" if devices else "no device") if part)
    notes = "".join(f"; {note}" for note in each.get("notes", ()))
    verdict = "ok" if each.get("ok") else "NOT ok"
    return f"node {each['node']}: {verdict}: {what} ({each.get('how') or 'not checked'}){notes}"


def _problems(reports: list[dict[str, Any]]) -> list[str]:
    """Returns each problem once, with all its nodes: a hundred equal lines would hide the one that differs."""
    nodes: dict[str, list[str]] = {}
    for each in reports:
        for problem in each["problems"] or ([] if each.get("ok") else ["not ok, without a reason"]):
            nodes.setdefault(problem, []).append(each["node"])
    return [f"{_all(dict.fromkeys(names))}: {problem}" for problem, names in nodes.items()]


def _all(names: Iterable[str]) -> str:
    first, *more = names
    if not more:
        return f"node {first}"
    shown = ", ".join([first, *more[: _SHOWN - 1]])
    return f"{len(more) + 1} nodes ({shown}{', ...' if len(more) >= _SHOWN else ''})"


def _missing(reports: list[dict[str, Any]], expectation: Expectation) -> list[str]:
    """Returns the nodes without a report, by name if mpirun's hostfile lists their names."""
    answered = sorted({each["node"] for each in reports}, key=_natural)
    if len(answered) >= expectation.nodes:
        return []
    absent = [name for name in _hosts(expectation) if name not in answered]
    names = f" (no answer from {_some(absent)})" if absent else ""
    return [f"{expectation.nodes} nodes expected, {len(answered)} answered: {_some(answered) or 'none'}{names}"]


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _natural(name: str) -> tuple[str, int, str]:
    """Returns the sort key of a name: ``worker-10`` comes after ``worker-9``."""
    head = name.rstrip("0123456789")
    return head, len(name), name


def _hosts(expectation: Expectation) -> list[str]:
    """Reads the host names of a hostfile: ``pod.job.namespace.svc slots=2``, hydra's ``pod.job.namespace.svc:2``."""
    lines = read(expectation.hostfile).splitlines() if expectation.hostfile else []
    return [line.split()[0].partition(":")[0].partition(".")[0] for line in lines if line.strip() and line[0] != "#"]


def _gathered(command: list[str], environ: dict[str, str]) -> list[dict[str, Any]]:
    """Collects the nodes' reports. Raises Stop, status 1, if the probe failed and no node answered."""
    name = behind_env(command)[0]
    for pause in (*_PAUSES, None):
        ended = child.run(command, environ, SECONDS)
        reports = parse(ended.output.decode(errors="replace"))
        if reports or pause is None or ended.status in (None, *_NOT_STARTED):
            break
        report.say(f"{name} reached no node ({ended.how()}), next attempt in {pause:g} s")
        time.sleep(pause)
    if not reports:
        kind = MISMATCH if ended.status in _NOT_STARTED else OUTSIDE
        raise Stop([f"{name} could not check the nodes: {ended.why()}"], kind)
    if ended.status:
        report.say(f"{name}: {ended.why()}")
    return reports


def parse(output: str) -> list[dict[str, Any]]:
    """Finds the reports in a command's output, at any place of a line and beside any other text.

    Some MPIs tag each line with its rank, and the lines of two nodes may have become one.
    """
    decoder = json.JSONDecoder()
    reports = []
    for text in output.split(MARK)[1:]:
        try:
            found, _ = decoder.raw_decode(text.lstrip())
        except (ValueError, RecursionError):
            continue  # an incomplete report: its node counts as missing
        if _is_report(found):
            reports.append(found)
    return reports


def _is_report(found: Any) -> bool:
    """Reports if this is a node's report; fills in the fields that may be left out."""
    if not isinstance(found, dict) or not isinstance(found.get("node"), str):
        return False
    texts = [found.setdefault(name, []) for name in ("problems", "notes", "names")]
    devices = found.setdefault("devices", [])
    return isinstance(devices, list) and all(_are_texts(each) for each in (*texts, *devices))


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)

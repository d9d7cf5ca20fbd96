"""MPI's gate: one check on each node by mpirun, and only when all agree the real mpirun.

Before a rank exists, because hydra leaves the other ranks alive when one dies before MPI_Init: a check inside the ranks
alone would hang. So a node's check always ends with 0, and what it found is in its one line.
"""

from __future__ import annotations

from k8sel.entrypoint import child, report, tables
from k8sel.entrypoint.checks.survey import survey
from k8sel.entrypoint.launch import behind_env, on_path
from k8sel.entrypoint.machine import Machine, node_name, read
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.record import TYPE_CHECKING
from k8sel.entrypoint.start import probe
from k8sel.entrypoint.stop import MISMATCH, Stop

if TYPE_CHECKING:
    from typing import Any, Iterable

_SHOWN = 8  # nodes listed in a message
_VERSION_SECONDS = 20.0


def check_here(expectation: Expectation, machine: Machine, environ: dict[str, str]) -> dict[str, Any]:
    """Mode ``check``: this node's report. A Stop is a problem of the report like any other."""
    try:
        seen = survey(expectation, machine, environ)
    except Stop as stop:
        return failed(environ, stop.messages)
    return {
        "node": seen.name,
        "ok": not seen.problems,
        "problems": seen.problems,
        "notes": seen.notes,
        "how": seen.found.how,
        "devices": [[device.pci, device.uuid] for device in seen.found.devices],
        "names": sorted({device.name for device in seen.found.devices}),
    }


def failed(environ: dict[str, str], problems: list[str]) -> dict[str, Any]:
    """The report of a node that could not even look."""
    return {"node": node_name(environ), "ok": False, "problems": problems}


def wait_for_all(expectation: Expectation, environ: dict[str, str], command: list[str]) -> None:
    """Mode ``gate``: returns when every node has what the job expects. Raises Stop otherwise."""
    _settle([*_other_mpi(expectation, environ, command), *_here(expectation, environ, command)], expectation)
    if expectation.check == "off" or not expectation.probe:
        report.say("the nodes are not checked before the ranks start (check: off, or no probe command)")
        return
    reports = sorted(probe.gather(expectation, environ), key=lambda each: _natural(each["node"]))
    for each in reports:
        report.say(_found(each))
    _settle([*_missing(reports, expectation), *_problems(reports)], expectation)


def _other_mpi(expectation: Expectation, environ: dict[str, str], command: list[str]) -> list[str]:
    """An MPI that is not the job's: hydra is Intel's and MPICH's, and each passes over the other's settings."""
    rows = tables.mpi()
    if expectation.check == "off" or expectation.mpi not in rows:
        return []
    name = behind_env(command)[0]
    with child.Signals():
        ended = child.run([on_path([name], environ), "--version"], environ, _VERSION_SECONDS)
    said = ended.output.decode(errors="replace") + ended.errors
    others = [other for other, row in rows.items() if row["says"] in said]
    if expectation.mpi in others:
        return []
    if others:
        first = said.strip().splitlines()[0]
        return [
            f"mpi.implementation is {expectation.mpi}, and {name} is {others[0]}'s ({first}): "
            f"mpi.implementation: {others[0]}, or an image with that MPI"
        ]
    report.say(f"{name} does not say which MPI it is ({ended.how()})")
    return []


def _here(expectation: Expectation, environ: dict[str, str], command: list[str]) -> list[str]:
    """What speaks against the ranks' command in the image itself, which is the nodes' too."""
    if not expectation.backend or expectation.check == "off":
        return []
    from k8sel.entrypoint.checks import backends, libraries

    program = libraries.of_ranks(command, environ)
    return backends.problems(expectation.backend, program, environ) if program else []


def _settle(messages: list[str], expectation: Expectation) -> None:
    if messages and expectation.check == "enforce":
        raise Stop(messages, MISMATCH)
    for message in messages:
        report.say(f"{message} (check: {expectation.check}, going on)")


def _found(each: dict[str, Any]) -> str:
    """What one node answered, as a line."""
    devices = "; ".join(", ".join(part for part in device if part) or "unknown" for device in each.get("devices", ()))
    names = ", ".join(name for name in each.get("names", ()) if name)
    what = " ".join(part for part in (names, f"[{devices}]" if devices else "no device") if part)
    notes = "".join(f"; {note}" for note in each.get("notes", ()))
    verdict = "ok" if each.get("ok") else "NOT ok"
    return f"node {each['node']}: {verdict}: {what} ({each.get('how') or 'not checked'}){notes}"


def _problems(reports: list[dict[str, Any]]) -> list[str]:
    """Each problem once, with all its nodes: a hundred equal lines would hide the one that differs."""
    nodes: dict[str, list[str]] = {}
    for each in reports:
        for problem in each["problems"] or ([] if each.get("ok") else ["not ok, and it does not say why"]):
            nodes.setdefault(problem, []).append(each["node"])
    return [f"{_all(dict.fromkeys(names))}: {problem}" for problem, names in nodes.items()]


def _all(names: Iterable[str]) -> str:
    first, *more = names
    if not more:
        return f"node {first}"
    shown = ", ".join([first, *more[: _SHOWN - 1]])
    return f"{len(more) + 1} nodes ({shown}{', ...' if len(more) >= _SHOWN else ''})"


def _missing(reports: list[dict[str, Any]], expectation: Expectation) -> list[str]:
    """Nodes that gave no report, by name where mpirun's hostfile says their names."""
    answered = sorted({each["node"] for each in reports}, key=_natural)
    if len(answered) >= expectation.nodes:
        return []
    absent = [name for name in _hosts(expectation) if name not in answered]
    names = f" (no answer from {_some(absent)})" if absent else ""
    return [f"{expectation.nodes} nodes expected, {len(answered)} answered: {_some(answered) or 'none'}{names}"]


def _some(names: list[str]) -> str:
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def _natural(name: str) -> tuple[str, int, str]:
    """What names are sorted by: ``worker-10`` comes after ``worker-9``."""
    head = name.rstrip("0123456789")
    return head, len(name), name


def _hosts(expectation: Expectation) -> list[str]:
    """Host names in the probe's hostfile: ``pod.job.namespace.svc slots=2``, or hydra's ``pod.job.namespace.svc:2``."""
    files = {row["hostfile"][-1] for row in tables.mpi().values()}
    lines = [line for path in expectation.probe if path in files for line in read(path).splitlines()]
    return [line.split()[0].partition(":")[0].partition(".")[0] for line in lines if line.strip() and line[0] != "#"]

"""Every check of the entrypoint, in one list. A mode runs its own checks, in this order."""

from __future__ import annotations

from k8sel.entrypoint import cpus, masks, report
from k8sel.entrypoint.checks import NOTHING, Case, Finding, devices, libraries, surroundings
from k8sel.entrypoint.lean import TYPE_CHECKING, record
from k8sel.entrypoint.report import Stop

if TYPE_CHECKING:
    from typing import Callable


def _mpi(case: Case) -> Finding:
    from k8sel.entrypoint.checks import mpi  # only the gate needs it

    return mpi.another(case)


def _backend(case: Case) -> Finding:
    if not case.expectation.backend or case.program is None:
        return NOTHING
    if case.expectation.check == "off":
        return Finding(unchecked=["backend"])
    from k8sel.entrypoint.checks import backends  # most jobs name no backend

    found = backends.check(case)
    return found if case.name else Finding(found.problems)  # at the gate: each rank prints the notes


def _launchers_library(case: Case) -> Finding:
    """Compares the launcher with the libraries beside it; only a note if another Python may start."""
    if case.program is None:
        return NOTHING
    absent = libraries.missing(case.expectation.launcher, case.program)
    return Finding(absent) if case.program.python() else Finding((), absent)


@record(frozen=True)
class Check:
    """One check, and the modes and jobs that it is for."""

    name: str
    find: Callable[[Case], Finding]
    modes: tuple[str, ...] = ("node", "rank", "check")
    devices: bool | None = None  # True: only for a job that uses devices; False: only for one that uses none
    levels: tuple[str, ...] = ("enforce", "warn")  # of the job's `check`


_ALWAYS = ("enforce", "warn", "off")
CHECKS = (
    Check("no check", devices.unchecked, devices=True, levels=("off",)),
    Check("order", devices.order, devices=True),
    Check("positions", devices.positions, devices=True),
    Check("processes", devices.processes, devices=True),
    Check("units", devices.units, devices=True),
    Check("count", devices.count, devices=True),
    Check("product and memory", devices.products, devices=True),
    Check("replicas", devices.replicas, devices=True),
    Check("masks", devices.unmaskable, devices=True),
    Check("groups", devices.grouped, devices=True),
    Check("variables that are set", devices.already, devices=True),
    Check("unknown", devices.unknown, devices=True),
    Check("no devices", devices.unused, devices=False),
    Check("variables that show devices", devices.exposed, devices=False),
    Check("device nodes", devices.nodes, devices=False, levels=_ALWAYS),
    Check("shared memory and limits", surroundings.check),
    Check("shared memory, no check", surroundings.unchecked, levels=("off",)),
    Check("MPI", _mpi, modes=("gate",)),
    Check("backend", _backend, modes=("node", "rank", "gate"), levels=_ALWAYS),
    Check("launcher's library", _launchers_library, modes=("node",), levels=_ALWAYS),
    Check("processes started", devices.started, modes=("rank",), levels=_ALWAYS),
    Check("cores", lambda case: Finding((), cpus.crowded(case.share)), modes=("node", "rank"), levels=_ALWAYS),
)


def survey(case: Case, mode: str) -> Finding:
    """Runs the checks of ``mode`` and joins their findings."""
    found = [check.find(case) for check in CHECKS if _is_for(check, case, mode)]
    return Finding(
        [text for each in found for text in each.problems],
        [text for each in found for text in each.notes],
        [field for each in found for field in each.unchecked],
    )


def _is_for(check: Check, case: Case, mode: str) -> bool:
    if mode not in check.modes or case.expectation.check not in check.levels:
        return False
    return check.devices is None or check.devices == masks.uses_devices(case.row, case.expectation.devices)


def settle(case: Case, finding: Finding) -> None:
    """Prints the notes. Raises Stop on a problem, unless the check's level is warn."""
    node = f"node {case.name}: " if case.name else ""  # MPI's launcher is no node of the job
    messages = [f"{node}{problem}" for problem in finding.problems]
    stop_or_warn(messages, case.expectation.check)
    if finding.notes:
        report.say(f"{node}note: {'; '.join(finding.notes)}")


def stop_or_warn(messages: list[str], check: str) -> None:
    """Raises Stop with the messages, or prints them if ``check`` is not enforce."""
    if messages and check == "enforce":
        raise Stop(messages)
    for message in messages:
        report.say(f"{message} (check: {check}, continuing)")

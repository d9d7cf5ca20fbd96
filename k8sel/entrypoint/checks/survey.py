"""One node as it was found: look, compare, and settle whether it may start."""

from __future__ import annotations

from k8sel.entrypoint import discovery, masks, report, tables
from k8sel.entrypoint.checks import devices, surroundings
from k8sel.entrypoint.discovery import Found
from k8sel.entrypoint.machine import Machine, node_name
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.record import TYPE_CHECKING, record, replace
from k8sel.entrypoint.stop import Stop
from k8sel.entrypoint.tables import Row

if TYPE_CHECKING:
    from typing import Mapping


@record(frozen=True)
class Survey:
    """What one node has, and what speaks against starting there."""

    name: str
    machine: Machine
    row: Row
    found: Found
    problems: list[str]
    notes: list[str]
    hidden: dict[str, str]  # variables that hide every vendor's devices: set when the job asks for none
    unchecked: list[str]  # fields of the job file that nobody compared
    libraries: Mapping[str, str] | None = None  # versions of those that the program will import


def survey(expectation: Expectation, machine: Machine, environ: dict[str, str]) -> Survey:
    """Looks for what is expected. Raises Stop for an accelerator that no row describes."""
    rows = tables.accelerators()
    row = rows.get(expectation.accelerator)
    if row is None:
        name = node_name(environ)
        raise Stop([f"node {name}: accelerator {expectation.accelerator} is none of {', '.join(sorted(rows))}"])
    if row.maskEnv is None or not expectation.devices:
        seen = _without_devices(expectation, rows, row, machine, environ)
    else:
        seen = _with_devices(expectation, row, machine, environ)
    return seen if expectation.check == "off" else _with_surroundings(seen, expectation, environ)


def _with_devices(expectation: Expectation, row: Row, machine: Machine, environ: dict[str, str]) -> Survey:
    name = node_name(environ)
    if expectation.check == "off":
        note = f"nothing was checked (check: off), {devices.unlooked(row)}"
        return Survey(
            name, machine, row, Found(), [], [note], {}, [*devices.asked(expectation), *_shared(expectation)], {}
        )
    found = discovery.find(row.discovery, machine, environ)
    problems = devices.problems(expectation, row, found, environ)
    unknown = devices.unknown(expectation, row, found)
    notes = [*found.notes, *dict.fromkeys(text for _, text in unknown)]
    return Survey(name, machine, row, found, problems, notes, {}, [field for field, _ in unknown])


def _with_surroundings(seen: Survey, expectation: Expectation, environ: dict[str, str]) -> Survey:
    here = surroundings.look(seen.row, seen.machine, environ)
    unknown = surroundings.unknown(expectation, here)
    return replace(
        seen,
        problems=[*seen.problems, *surroundings.problems(expectation, here)],
        notes=[*seen.notes, *surroundings.notes(expectation, seen.row, here, len(seen.found.devices)), *unknown],
        unchecked=[*seen.unchecked, *(_shared(expectation) if unknown else [])],
    )


def _shared(expectation: Expectation) -> list[str]:
    return [] if expectation.shared_memory is None else ["sharedMemory"]


def _without_devices(
    expectation: Expectation, rows: dict[str, Row], row: Row, machine: Machine, environ: dict[str, str]
) -> Survey:
    """A job that asks for no device: all are hidden; a device node that is here all the same is worth a note."""
    hidden, own = masks.hidden(rows), _built_in(row, machine)
    problems = [*devices.unheld(expectation, row, len(own.devices)), *_shown(hidden, environ)]
    problems = [] if expectation.check == "off" else problems
    unchecked = _shared(expectation) if expectation.check == "off" else []
    notes = _all_nodes(rows, machine)
    return Survey(node_name(environ), machine, row, own, problems, notes, hidden, unchecked)


def _shown(hidden: dict[str, str], environ: dict[str, str]) -> list[str]:
    if not any(name in environ for name in hidden):
        return []
    from k8sel.entrypoint.checks import already

    return already.problems_with_none(hidden, environ)


def _built_in(row: Row, machine: Machine) -> Found:
    """A device that is a part of the machine: nothing allots it or masks it, so it is used without being asked for."""
    found = discovery.find(row.discovery, machine) if row.maskEnv is None else Found()
    return found if found.devices else Found((), "none asked for")


def _all_nodes(rows: dict[str, Row], machine: Machine) -> list[str]:
    """What is said of device nodes in a container that asked for none: some vendors have no mask that means none."""
    found: dict[str, list[str]] = {}
    for row in rows.values():
        text = "hidden from the program, but in" if row.maskHide else "not asked for, and nothing can hide it: in"
        found.setdefault(text, []).extend(discovery.nodes(row.discovery, machine))
    return [f"{text} this container: {', '.join(paths)}" for text, paths in found.items() if paths]


def settle(seen: Survey, expectation: Expectation) -> None:
    """Says what was seen beside the devices. Raises Stop on a problem, unless the job only wants to be warned."""
    messages = [f"node {seen.name}: {problem}" for problem in seen.problems]
    if messages and expectation.check == "enforce":
        raise Stop(messages)
    for message in messages:
        report.say(f"{message} (check: {expectation.check}, going on)")
    if seen.notes:
        report.say(f"node {seen.name}: note: {'; '.join(seen.notes)}")

"""One node as it was found: look, compare, and settle whether it may start."""

from __future__ import annotations

from k8sel.entrypoint import check, discovery, masks, report, tables
from k8sel.entrypoint.discovery import Found
from k8sel.entrypoint.machine import Machine, node_name
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.record import record
from k8sel.entrypoint.stop import Stop
from k8sel.entrypoint.tables import Row


@record(frozen=True)
class Survey:
    """What one node has, and what speaks against starting there."""

    name: str
    row: Row
    found: Found
    problems: list[str]
    notes: list[str]
    hidden: dict[str, str]  # variables that hide every vendor's devices: set when the job asks for none


def survey(expectation: Expectation, machine: Machine, environ: dict[str, str]) -> Survey:
    """Looks for the expected devices. Raises Stop for an accelerator that no row describes."""
    rows = tables.accelerators()
    name = node_name(environ)
    row = rows.get(expectation.accelerator)
    if row is None:
        raise Stop([f"node {name}: accelerator {expectation.accelerator} is none of {', '.join(sorted(rows))}"])
    if row.maskEnv is None or not expectation.devices:
        return _without_devices(expectation, rows, row, machine, environ)
    if expectation.check == "off":
        return Survey(name, row, Found(), [], [f"nothing was checked (check: off), {_unlooked(row)}"], {})
    found = discovery.find(row.discovery, machine)
    problems = check.problems(expectation, row, found, environ)
    return Survey(name, row, found, problems, _notes(row, found, expectation), {})


def _notes(row: Row, found: Found, expectation: Expectation) -> list[str]:
    if found.how:
        product = expectation.product and not found.named
        return [*found.notes, *([f"{found.how} does not say a product: it was not checked"] if product else [])]
    return [f"{row.name} devices cannot be checked by this version: nothing was looked at, {_unlooked(row)}"]


def _unlooked(row: Row) -> str:
    return "its mask is by position" if row.maskValue in ("uuid", "index") else f"{row.maskEnv} is not written"


def _without_devices(
    expectation: Expectation, rows: dict[str, Row], row: Row, machine: Machine, environ: dict[str, str]
) -> Survey:
    """A job that asks for no device: all are hidden; a device node that is here all the same is worth a note."""
    hidden = masks.hidden(rows)
    problems = [
        f"{name}={environ[name]} is set already, and the job asks for no device: {check.WAY_OUT}"
        for name, value in hidden.items()
        if expectation.check != "off" and environ.get(name, value) != value
    ]
    return Survey(node_name(environ), row, Found((), "none asked for"), problems, _all_nodes(rows, machine), hidden)


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
    for note in seen.notes:
        report.say(f"node {seen.name}: note: {note}")

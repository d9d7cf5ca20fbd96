"""A case: one node, or MPI's launcher, with the job's expectation. Every check reads a case and returns a finding."""

from __future__ import annotations

from k8sel.entrypoint import discovery, masks, tables
from k8sel.entrypoint.discovery import Found
from k8sel.entrypoint.lean import TYPE_CHECKING, record
from k8sel.entrypoint.machine import Machine, node_name
from k8sel.entrypoint.report import Stop

if TYPE_CHECKING:
    from typing import Any, Sequence

    from k8sel.entrypoint.checks.libraries import Libraries
    from k8sel.entrypoint.cpus import Share
    from k8sel.entrypoint.protocol import Expectation
    from k8sel.entrypoint.tables import Row

_NOT_HERE: Any = None


@record(frozen=True)
class Case:
    """The values that a check may compare. MPI's launcher has no row, machine or devices."""

    expectation: Expectation
    environ: dict[str, str]
    name: str = ""  # of the node
    row: Row = _NOT_HERE  # of the accelerator table
    machine: Machine = _NOT_HERE
    found: Found = _NOT_HERE  # the node's devices
    hidden: dict[str, str] = _NOT_HERE  # variables that hide every vendor's devices; set when the job uses none
    others: Sequence[Row] = ()  # rows whose devices the job does not use, when it uses none
    program: Libraries | None = None  # the libraries of the ranks' program; None: it is not in this image
    command: Sequence[str] = ()
    share: Share = _NOT_HERE  # of the node's cores, for each process
    rank: dict[str, str] = _NOT_HERE  # RANK, LOCAL_RANK and their like, of one process


@record(frozen=True)
class Finding:
    """The result of one check."""

    problems: Sequence[str] = ()  # each stops the start
    notes: Sequence[str] = ()
    unchecked: Sequence[str] = ()  # fields of the job file that could not be compared


NOTHING = Finding()


def look(expectation: Expectation, machine: Machine, environ: dict[str, str]) -> Case:
    """Finds this node's devices and makes its case. Raises Stop for an accelerator that has no row."""
    rows, name = tables.accelerators(), node_name(environ)
    row = rows.get(expectation.accelerator)
    if row is None:
        raise Stop([f"node {name}: accelerator {expectation.accelerator} is none of {', '.join(sorted(rows))}"])
    if not uses_devices(expectation, row):
        others, hidden = list(rows.values()), masks.hidden(rows)
        return Case(expectation, environ, name, row, machine, _built_in(row, machine), hidden, others)
    found = Found() if expectation.check == "off" else discovery.find(row.discovery, machine, environ)
    return Case(expectation, environ, name, row, machine, found, {})


def uses_devices(expectation: Expectation, row: Row) -> bool:
    """Reports if the job's processes get devices by a mask."""
    return row.maskEnv is not None and bool(expectation.devices)


def _built_in(row: Row, machine: Machine) -> Found:
    """Reports if the device is a part of the machine: no plugin allocates it and no mask hides it."""
    found = discovery.find(row.discovery, machine) if row.maskEnv is None else Found()
    return found if found.devices else Found((), "none asked for")

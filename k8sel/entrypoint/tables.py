"""The tables of k8sel that the entrypoint needs: accelerators, launchers, MPI's flavours, backends.

The loader of the package k8sel reads them, from a folder and from a zip. importlib.resources would start more slowly.
"""

from __future__ import annotations

import os

import k8sel
from k8sel.entrypoint.lean import TYPE_CHECKING, loads, record

if TYPE_CHECKING:
    from typing import Any, Sequence

BY_NUMBER = ("module", "range")  # mask values that only the devices show: if they are not known, there is no mask


@record(frozen=True)
class Row:
    """One accelerator: its name and those fields of its row in ``accelerators.json`` that are used at run time."""

    name: str
    inContainer: bool  # can be given to a container
    exposureEnv: str | None  # the variable that decides which device nodes enter a container
    ownedEnv: list[str]  # every variable that hides, orders or picks devices of this vendor
    discovery: str  # the module of k8sel.entrypoint.discovery that finds its devices, and further arguments
    maskEnv: str | None  # the variable that hides and orders devices for a process
    maskValue: str | None  # the kind of value in the mask: uuid | index | module | range
    maskOrdered: bool  # the process sees the devices in the mask's order
    maskHide: dict[str, str]  # variables that hide every device of this vendor
    library: str | None  # the vendor's own library, which comes with the driver or its runtime, never with torch
    libraryNeeds: str | None  # the package or setting that provides it
    orderEnv: dict[str, dict[str, str]]  # order -> variables that make the driver count so
    groups: Sequence[Sequence[int]] = ()  # numbers of the mask that the vendor documents as groups; (): any


FIELDS = tuple(Row.__annotations__)[1:]


def accelerators() -> dict[str, Row]:
    """Returns every row of the table, by name."""
    rows = _table("accelerators.json")
    return {name: Row(name, **{field: row[field] for field in FIELDS if field in row}) for name, row in rows.items()}


def launchers() -> dict[str, dict[str, bool]]:
    """Returns the launchers: ``usesMpi``; ``startsOne``, one process on each node."""
    return _table("launchers.json")


def mpi() -> dict[str, dict[str, Any]]:
    """Returns MPI's flavours: ``rank`` maps our word (``LOCAL_RANK``) to theirs."""
    return _table("mpi.json")


def backends() -> dict[str, dict[str, Any]]:
    """Returns torch.distributed's backends, and the libraries that each needs."""
    return _table("backends.json")


def _table(name: str) -> dict[str, dict[str, Any]]:
    path = os.path.join(os.path.dirname(k8sel.__file__), "facts", name)
    loader: Any = k8sel.__spec__ and k8sel.__spec__.loader
    rows: dict[str, dict[str, Any]] = loads(loader.get_data(path).decode())
    return rows

"""The tables of k8sel that the entrypoint needs: accelerators, product families, launchers, MPI's flavours, backends.

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
    exclusive: bool | None  # one process alone can use a device: it opens or reserves all that its mask shows
    unit: str | None  # the part of a device that a process gets from the framework's plugin, by its local rank
    unitWhole: dict[str, str]  # variables with which the plugin leaves one process all units
    partEnv: dict[str, str]  # variables that a process with a part of the node's devices needs, with the values for one
    ignoredEnv: list[str]  # variables of ownedEnv that have no effect beside the mask
    harmlessEnv: dict[str, list[str]]  # variable of ownedEnv -> its terms that select every device
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
    """Returns the launchers: ``usesMpi``; ``startsOne``, one process on each node; ``restarts``, by torch's agent."""
    return _table("launchers.json")


def mpi() -> dict[str, dict[str, Any]]:
    """Returns MPI's flavours: ``rank`` maps our word (``LOCAL_RANK``) to theirs."""
    return _table("mpi.json")


def backends() -> dict[str, dict[str, Any]]:
    """Returns torch.distributed's backends, and the libraries that each needs."""
    return _table("backends.json")


def families() -> dict[str, str]:
    """Maps the last word of PCI ids to the product family of the device, where its driver groups devices by family."""
    return {pci: name for name, row in _table("families.json").items() for pci in row["devices"].split()}


def _table(name: str) -> dict[str, dict[str, Any]]:
    path = os.path.join(os.path.dirname(k8sel.__file__), "facts", name)
    loader: Any = k8sel.__spec__ and k8sel.__spec__.loader
    rows: dict[str, dict[str, Any]] = loads(loader.get_data(path).decode())
    return rows

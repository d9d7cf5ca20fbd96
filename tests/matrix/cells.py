"""The cells of docs/selection.md: what comes of each way to name devices, at each door, for each row of the table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matrix import doors, vendors

DATA = Path(__file__).parents[2] / "docs" / "selection.json"
SELECTIONS: Mapping[str, Mapping[str, Any]] = {
    "count": {"count": 2},
    "subset": {"devices": [0, 2]},
    "order": {"devices": [2, 0]},
    "none": {"devices": []},
}
ISOLATIONS = ("node", "process")
SEVERAL = "torchrun"  # isolation node with several processes, for vendors of which a process gets not just any device
RECEIPT = "k8sel-receipt: "
STOPPED = 78  # the entrypoint's status for a mismatch

Cell = dict[str, Any]


def of(row: str, door: str, image: Path) -> dict[str, Cell]:
    """The cells of one row at one door, by their names in docs/selection.json."""
    found = {
        f"{row} {door} {isolation} {name}": cell(row, door, {**selection, "isolation": isolation}, image)
        for isolation in ISOLATIONS
        for name, selection in SELECTIONS.items()
    }
    each = vendors.VENDORS[row].ranks
    for name, selection in SELECTIONS.items() if each else ():
        found[f"{row} {door} {SEVERAL} {name}"] = cell(row, door, selection, image, 2 * each)
    return found


def cell(row: str, door: str, accelerator: Mapping[str, Any], image: Path, processes: int = 0) -> Cell:
    """The reason of a refusal, or the devices of each process; ``shown``: the machine's devices by PCI address.

    ``processes``: of torchrun, where they share a mask.
    """
    seen = doors.go(door, row, accelerator, image, processes)
    if seen.refused:
        return {"refused": seen.refused}
    if seen.status == STOPPED:
        return {"stopped": "; ".join(line.split(": ", 2)[2] for line in seen.said.splitlines())}
    assert seen.status == 0, seen.said
    placed = bool(processes and accelerator.get("devices", True))
    return {
        "how": _how(seen.said),
        "written": [_line(variables) for variables in seen.written],
        "shown": [vendors.shown(row, seen.held, variables, placed) for variables in seen.processes],
    }


def recorded() -> dict[str, Cell]:
    """Returns the data of docs/selection.md."""
    found: dict[str, Cell] = json.loads(DATA.read_text(encoding="utf-8"))
    return found


def _how(said: str) -> str:
    """The way in which the entrypoint found the devices; empty if it did not look."""
    receipts = [line.removeprefix(RECEIPT) for line in said.splitlines() if line.startswith(RECEIPT)]
    found: str = json.loads(receipts[-1])["how"]
    return found


def _line(variables: Mapping[str, str]) -> str:
    """As a shell would take them, with short UUIDs."""
    text = " ".join(f"{name}={value}" for name, value in variables.items())
    return text.replace("GPU-00000000-0000-0000-0000-00000000000", "GPU-..")

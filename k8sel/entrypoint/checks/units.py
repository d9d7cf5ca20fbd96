"""Compares the processes of a node with the devices that one process can use: docs/decisions/0024. Pure."""

from __future__ import annotations

from k8sel.entrypoint import masks, tables
from k8sel.entrypoint.checks import NOTHING, Case, Finding
from k8sel.entrypoint.machine import whole


def check(case: Case) -> Finding:
    """Joins the findings about this vendor's devices."""
    if masks.by_unit(case.row, case.expectation):
        return Finding([*_places(case), *_numbers(case)])
    bounds = _bounds(case)
    return Finding([*_opened(case), *bounds.problems], bounds.notes)


def _places(case: Case) -> list[str]:
    """Refuses devices that are not the first ones: some plugins give local rank r the container's r-th unit."""
    devices, processes = case.expectation.devices, case.expectation.processes_per_node
    if processes == 1 or devices == tuple(range(len(devices))):
        return []
    plugin = f"whose {case.row.unit}s PyTorch's plugin gives the processes"
    return [
        f"devices {list(devices)} are not the first of the container, {plugin}: use positions 0 to {len(devices) - 1}"
    ]


def _numbers(case: Case) -> list[str]:
    """Refuses a number of processes that is not the devices' number of units."""
    row, processes, found = case.row, case.expectation.processes_per_node, case.found.devices
    sizes = [masks.size(found[position].number) for position in case.expectation.devices if position < len(found)]
    total = sum(sizes)
    if processes == total or not all(sizes) or not sizes:
        return []
    if processes == 1 and row.unitWhole and row.unitWhole.items() <= case.environ.items():
        return []
    each = f", {sizes[0]} of each device" if len(set(sizes)) == 1 else ""
    fact = f"{_some(processes)} for {total} {row.unit}s{each}: PyTorch's plugin gives each process one"
    other = ", or launcher: python for one process with all of them" if processes == 1 else ""
    return [f"{fact}: set processesPerNode: {total}{other}"]


def _some(processes: int) -> str:
    return "1 process" if processes == 1 else f"{processes} processes"


def _opened(case: Case) -> list[str]:
    """Refuses several processes that would open the same devices."""
    expectation = case.expectation
    if not case.row.exclusive or expectation.isolation == "process" or expectation.processes_per_node == 1:
        return []
    if tables.launchers().get(expectation.launcher, {}).get("startsOne"):
        return []
    fact = f"each of {expectation.processes_per_node} processes would open all of devices {list(expectation.devices)}"
    way_out = "set isolation: process, or launcher: python for one process with all of them"
    return [f"{fact}, which only one process can open: {way_out}"]


def _bounds(case: Case) -> Finding:
    """Compares the variables that a process with some of the node's devices needs, where the vendor has such ones."""
    expectation, row, total = case.expectation, case.row, len(case.found.devices)
    shares = masks.shares(expectation.devices, expectation.processes_per_node, expectation.isolation)
    number = len(shares[0])
    if not row.partEnv or not 0 < number < total:
        return NOTHING
    first, fact = next(iter(row.partEnv)), f"a process gets {number} of {total} {row.name} devices"
    if first in case.environ and _product(case.environ[first]) != number:
        return Finding([f"{first}={case.environ[first]} is set, and {fact}: set bounds with the product {number}"])
    missing = " and ".join(name for name in row.partEnv if name not in case.environ)
    if not missing or masks.part_env(row, case.found, expectation):
        return NOTHING
    if number == 1:
        return Finding((), [f"{missing} are not set: torch_xla sets them in each process, other programs have to"])
    way_out = f"set them in the job's env, or use 1 or all {total} devices for a process"
    return Finding([f"{fact}, and {missing} are not set: {way_out}"])


def _product(bounds: str) -> int | None:
    """Returns the number of devices in bounds such as ``2,2,1``; None if they are no numbers."""
    product = 1
    for each in bounds.split(","):
        number = whole(each)
        if number is None:
            return None
        product *= number
    return product

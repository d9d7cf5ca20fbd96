"""Compares the devices found with those that the job expects. Each check returns texts for people. Pure."""

from __future__ import annotations

from k8sel.entrypoint import discovery, masks, tables
from k8sel.entrypoint.checks import NOTHING, Case, Finding
from k8sel.entrypoint.discovery import Device, with_notes
from k8sel.entrypoint.machine import names
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.tables import Row

_SHOWN = 8  # devices listed in a message
# In /dev of every container: opencontainers/runtime-spec config-linux.md "Default Devices"; Docker's and the kubelet's.
_NO_DEVICES = {"console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr", "stdin"}
_NO_DEVICES |= {"stdout", "termination-log", "tty", "urandom", "zero"}


def unchecked(case: Case) -> Finding:
    """Notes that nothing was compared (check: off)."""
    return Finding((), [f"devices are not checked (check: off); {_mask_of(case.row)}"], _compared(case.expectation))


def unknown(case: Case) -> Finding:
    """Notes the fields that cannot be checked on this node, beside the notes of the search itself."""
    found, reasons = case.found, _unknown(case)
    return Finding((), [*found.notes, *dict.fromkeys(text for _, text in reasons)], [field for field, _ in reasons])


def _unknown(case: Case) -> list[tuple[str, str]]:
    """Returns each field that cannot be checked, and the reason."""
    compared, row = _compared(case.expectation), case.row
    if not case.found.how:
        reason = f"{row.name} devices cannot be checked: this version of k8sel cannot find them; {_mask_of(row)}"
        return [(name, reason) for name in compared]
    if len(compared) == 1:
        return []
    from k8sel.entrypoint.checks import product

    return product.unknown(case.expectation, case.found)


def _compared(expectation: Expectation) -> list[str]:
    """Returns the fields of the job file that are compared with this node's devices."""
    given = {"product": expectation.product, "memory": expectation.memory}
    return ["devices", *(name for name, value in given.items() if value)]


def _mask_of(row: Row) -> str:
    """Says which mask is written if the devices are not known."""
    return "the mask is by position" if row.maskValue in ("uuid", "index") else f"{row.maskEnv} is not written"


def unused(case: Case) -> Finding:
    """Refuses a count, a product or a memory if no process gets a device."""
    expectation, row, own = case.expectation, case.row, len(case.found.devices)  # own: a part of the machine
    result, number = [], max(len(expectation.devices), expectation.count or 0)
    if number > own:
        here = "devices is empty" if row.maskEnv else f"{own} found, without a mask to choose them"
        result.append(f"{number} {row.name} device{'' if number == 1 else 's'} expected, and {here}: ask for {own}")
    for name in _compared(expectation)[1:]:
        result.append(f"{name} is set, and the job uses no device: ask for devices, or remove {name}")
    return Finding(result)


def exposed(case: Case) -> Finding:
    """Refuses variables of the image or the user that show devices to a job that uses none."""
    if not any(name in case.environ for name in case.hidden):
        return NOTHING
    from k8sel.entrypoint.checks import already

    return Finding(already.problems_with_none(case.hidden, case.environ))


def nodes(case: Case) -> Finding:
    """Notes device nodes in the container of a job that uses none: some vendors have no mask that hides them."""
    if _NO_DEVICES.issuperset(names(case.machine.dev)):
        return NOTHING  # most containers need no vendor's module
    found: dict[str, list[str]] = {}
    for row in case.others:
        text = "hidden from the program" if row.maskHide else "not hidden, because no variable hides them for certain"
        found.setdefault(text, []).extend(discovery.nodes(row.discovery, case.machine))
    notes = [f"unused devices in this container, {text}: {', '.join(paths)}" for text, paths in found.items() if paths]
    return Finding((), notes)


def started(case: Case) -> Finding:
    """Refuses a number of processes that differs from the plan."""
    number, planned = int(case.rank["LOCAL_WORLD_SIZE"]), case.expectation.processes_per_node
    if number == planned:
        return NOTHING
    return Finding([f"{planned} processes expected on this node, {number} started: start {planned}"])


def order(case: Case) -> Finding:
    """Refuses an order that this vendor's mask cannot write."""
    expectation, row, result = case.expectation, case.row, []
    if expectation.order not in row.orderEnv:
        result.append(f"{row.name} has no order {expectation.order}: use {' or '.join(row.orderEnv)}")
    if len(set(expectation.devices)) != len(expectation.devices):
        result.append(f"devices {list(expectation.devices)} names a position twice: name each once")
    if masks.unordered(row, _shares(expectation)):
        result.append(
            f"devices {list(expectation.devices)} cannot keep that order, since {row.maskEnv} is a set: "
            "use ascending order, or isolation: process"
        )
    return Finding(result)


def positions(case: Case) -> Finding:
    """Refuses a position that a node with exactly ``count`` devices does not have."""
    least, count = masks.needed(case.expectation.devices), case.expectation.count
    if count is None or least <= count:
        return NOTHING
    return Finding([f"device {least - 1} is beyond the count of {count}: set the count to {least} or more"])


def processes(case: Case) -> Finding:
    """Refuses unequal shares, and more processes than devices: two processes would share one without a message."""
    expectation = case.expectation
    processes, devices = expectation.processes_per_node, len(expectation.devices)
    shared = masks.by_unit(case.row, expectation) or tables.launchers().get(expectation.launcher, {}).get("startsOne")
    if processes > devices and not shared:
        what = f"{devices} {expectation.accelerator} device{'' if devices == 1 else 's'}"
        return Finding([f"{processes} processes for {what}: use as many devices, or fewer processes"])
    if masks.unequal(expectation.devices, processes, expectation.isolation):
        return Finding(
            [f"{devices} devices have no equal shares for {processes} processes: change a number, or the isolation"]
        )
    return NOTHING


def units(case: Case) -> Finding:
    """Compares the processes with the units of the devices, and with devices that only one process can open."""
    row = case.row
    if not case.found.how or not (row.exclusive or row.unit or row.partEnv):
        return NOTHING  # most vendors need no further module
    from k8sel.entrypoint.checks import units

    return units.check(case)


def count(case: Case) -> Finding:
    """Refuses a number of devices that differs from the expected one."""
    expectation, found = case.expectation, case.found
    number = len(found.devices)
    exact, least = expectation.count, masks.needed(expectation.devices)
    if not found.how or number == exact or (exact is None and number >= least):
        return NOTHING
    wanted = str(exact) if exact is not None else f"{least} or more"
    what = f"{expectation.accelerator} device{'' if wanted == '1' else 's'}"
    fact = f"{wanted} {what} expected, {number} found{_addresses(found.devices)} by {found.how}"
    return Finding([with_notes(fact, found, _hint(exact, number, case.row))])


def _hint(exact: int | None, number: int, row: Row) -> str:
    if exact is None and number:  # the job expects no exact number
        return f"use positions 0 to {number - 1}"
    if exact is not None and number > exact:
        variable = f"remove {row.exposureEnv} from the image and the pod, or " if row.exposureEnv else ""
        return f"{variable}start the container without privileged: it has devices that it did not request"
    if number == 0:
        return "check the pod's request for devices, the node's container runtime and the node's driver"
    return "check the node's device plugin, which allocated more; replicas of a shared device count once"


def products(case: Case) -> Finding:
    """Refuses devices of another product, or with less memory."""
    if not case.found.how or len(_compared(case.expectation)) == 1:
        return NOTHING  # most jobs need no further module
    from k8sel.entrypoint.checks import product

    return Finding(product.problems(case.expectation, case.found))


def replicas(case: Case) -> Finding:
    """Refuses a device that was found twice."""
    devices = case.found.devices if case.found.how else ()
    each = [device.uuid or device.number for device in devices if device.uuid or device.number]
    twice = sorted({name for name in each if each.count(name) > 1})
    names = ", ".join(twice)
    if not twice:
        return NOTHING
    return Finding([f"{names} found more than once by {case.found.how}: ask for fewer devices, since these are one"])


def unmaskable(case: Case) -> Finding:
    """Refuses devices that a process cannot use together, or that no mask can name."""
    if not case.found.how:
        return NOTHING
    return Finding(masks.problems(case.row, case.expectation.order, _shares(case.expectation), case.found))


def grouped(case: Case) -> Finding:
    """Notes devices of a process that the vendor does not document as a group."""
    if not case.row.groups:
        return NOTHING
    notes = []
    for positions in _shares(case.expectation):
        known = [device.number for number, device in enumerate(case.found.devices) if number in positions]
        instead = masks.ungrouped(case.row, len(known), [int(number) for number in known])
        if instead:
            notes.append(f"{','.join(known)} is not a group of devices that the vendor documents: use {instead}")
    return Finding((), notes)


def _shares(expectation: Expectation) -> list[tuple[int, ...]]:
    return masks.shares(expectation.devices, expectation.processes_per_node, expectation.isolation)


def already(case: Case) -> Finding:
    """Refuses variables of the image or the user that choose other devices than the job."""
    row = case.row
    if not any(name in case.environ for name in row.ownedEnv if name != row.exposureEnv):
        return NOTHING  # most containers need no further module
    from k8sel.entrypoint.checks import already as variables

    return Finding(
        variables.problems(case.expectation, row, case.found, case.environ), variables.without_effect(row, case.environ)
    )


def _addresses(devices: tuple[Device, ...]) -> str:
    """Returns `` (0000:3b:00.0, ...)``; nothing if no address is known."""
    known = [device.pci for device in devices if device.pci]
    more = ["..."] if len(known) > _SHOWN else []
    return f" ({', '.join(known[:_SHOWN] + more)})" if known else ""

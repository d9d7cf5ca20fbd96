"""What was found against what was expected. Pure: each rule gives the problems it sees, as text for a person."""

from __future__ import annotations

from k8sel.entrypoint import masks
from k8sel.entrypoint.discovery import Device, Found, because
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.tables import Row

_SHOWN = 8  # devices listed in a message


def problems(expectation: Expectation, row: Row, found: Found, environ: dict[str, str]) -> list[str]:
    """Everything that speaks against starting on this node."""
    result = [*_order(expectation, row), *_beyond(expectation), *_processes(expectation)]
    if found.how:
        seen = masks.shares(expectation.devices, expectation.processes_per_node, expectation.isolation)
        result += [*_count(expectation, row, found), *_product(expectation, found), *_twice(found)]
        result += masks.problems(row, expectation.order, seen, found)
    return result + _already(expectation, row, found, environ)


def unknown(expectation: Expectation, row: Row, found: Found) -> list[tuple[str, str]]:
    """What the job asks for and nothing here says: the field, and why it cannot be checked."""
    if not found.how:
        reason = f"{row.name} devices cannot be checked by this version: nothing was looked at, {unlooked(row)}"
        return [(name, reason) for name in asked(expectation)]
    if len(asked(expectation)) == 1:
        return []
    from k8sel.entrypoint.checks import product

    return product.unknown(expectation, found)


def asked(expectation: Expectation) -> list[str]:
    """What of the devices this node is to be compared with."""
    given = {"product": expectation.product, "memory": expectation.memory}
    return ["devices", *(name for name, value in given.items() if value)]


def unheld(expectation: Expectation, row: Row, own: int) -> list[str]:
    """What is asked of devices where no process is given one; ``own``: those that are a part of the machine."""
    result, number = [], max(len(expectation.devices), expectation.count or 0)
    if number > own:
        here = "devices names none" if row.maskEnv else f"{own} found, which nothing allots"
        result.append(f"{number} {row.name} device{'' if number == 1 else 's'} asked for, and {here}: ask for {own}")
    for name in asked(expectation)[1:]:
        result.append(f"{name} asked for, and no device is: a number of devices, or no {name}")
    return result


def unlooked(row: Row) -> str:
    """What becomes of the mask where nobody looked."""
    return "its mask is by position" if row.maskValue in ("uuid", "index") else f"{row.maskEnv} is not written"


def _order(expectation: Expectation, row: Row) -> list[str]:
    """An order that this vendor's mask cannot write."""
    result = []
    if expectation.order not in row.orderEnv:
        result.append(f"order {expectation.order} does not exist for {row.name}; it has {', '.join(row.orderEnv)}")
    if len(set(expectation.devices)) != len(expectation.devices):
        result.append(f"devices {_listed(expectation.devices)} names one twice: each once")
    seen = masks.share(expectation.devices, expectation.processes_per_node, 0, expectation.isolation)
    if not row.maskOrdered and list(seen) != sorted(seen):
        result.append(
            f"devices {_listed(expectation.devices)} cannot be put in that order: {row.maskEnv} is a set. "
            "Ascending order, or isolation: process"
        )
    return result


def _beyond(expectation: Expectation) -> list[str]:
    """A position that a node with exactly ``count`` devices does not have."""
    last, count = max(expectation.devices), expectation.count
    if count is None or last < count:
        return []
    return [f"device {last} needs a count of {last + 1} or more, and the count is {count}"]


def _processes(expectation: Expectation) -> list[str]:
    """More processes than devices: two of them would share one without saying so."""
    processes, devices = expectation.processes_per_node, len(expectation.devices)
    if expectation.launcher != "python" and processes > devices:
        what = f"{devices} {expectation.accelerator} device{'' if devices == 1 else 's'}"
        return [f"{processes} processes for {what}: as many devices, or fewer processes"]
    if expectation.isolation == "process" and devices % processes:
        return [
            f"{devices} devices cannot be shared out to {processes} processes: isolation: process needs equal shares"
        ]
    return []


def _count(expectation: Expectation, row: Row, found: Found) -> list[str]:
    number = len(found.devices)
    exact, least = expectation.count, max(expectation.devices) + 1
    if number == exact or (exact is None and number >= least):
        return []
    wanted = str(exact) if exact is not None else f"{least} or more"
    what = f"{expectation.accelerator} device{'' if wanted == '1' else 's'}"
    text = f"{wanted} {what} expected, {number} found{_addresses(found.devices)} by {found.how}"
    return [f"{text}: {_hint(exact, number, row)}{because(found)}"]


def _hint(exact: int | None, number: int, row: Row) -> str:
    if exact is None and number:  # nobody promised a number
        return f"positions count from 0, and the last one here is {number - 1}"
    if exact is not None and number > exact:
        cause = f"{row.exposureEnv} is set in the image or the pod, or " if row.exposureEnv else ""
        return f"this container holds devices that it did not ask for: {cause}it is privileged"
    if number == 0:
        return "was the resource requested, does the node's container runtime hand devices over, is its driver loaded?"
    return "the node's device plugin promised more than it handed over; replicas of one shared device count once"


def _product(expectation: Expectation, found: Found) -> list[str]:
    if len(asked(expectation)) == 1:
        return []  # without the start-up of a module that most jobs have no use for
    from k8sel.entrypoint.checks import product

    return product.problems(expectation, found)


def _twice(found: Found) -> list[str]:
    each = [device.uuid or device.number for device in found.devices if device.uuid or device.number]
    twice = sorted({name for name in each if each.count(name) > 1})
    names = ", ".join(twice)
    return [f"{names} was found more than once by {found.how}: they are one device, ask for fewer"] if twice else []


def _already(expectation: Expectation, row: Row, found: Found, environ: dict[str, str]) -> list[str]:
    if not any(name in environ for name in row.ownedEnv if name != row.exposureEnv):
        return []  # without the start-up of a module that most containers have no use for
    from k8sel.entrypoint.checks import already

    return already.problems(expectation, row, found, environ)


def _addresses(devices: tuple[Device, ...]) -> str:
    """`` (0000:3b:00.0, ...)``; nothing where no address is known."""
    known = [device.pci for device in devices if device.pci]
    more = ["..."] if len(known) > _SHOWN else []
    return f" ({', '.join(known[:_SHOWN] + more)})" if known else ""


def _listed(devices: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, devices))}]"

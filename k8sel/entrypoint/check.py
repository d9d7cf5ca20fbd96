"""What was found against what was expected. Pure: each rule gives the problems it sees, as text for a person."""

from __future__ import annotations

from k8sel.entrypoint import masks
from k8sel.entrypoint.discovery import Device, Found
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.tables import Row

_SHOWN = 8  # devices listed in a message
_UNITS = ((2**50, "Pi"), (2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi"), (2**10, "Ki"))
WAY_OUT = "take it out of the image or the job's env"


def problems(expectation: Expectation, row: Row, found: Found, environ: dict[str, str]) -> list[str]:
    """Everything that speaks against starting on this node."""
    result = [*_order(expectation, row), *_beyond(expectation), *_processes(expectation)]
    if found.how:
        result += [*_count(expectation, row, found), *_product(expectation, found), *_memory(expectation, found)]
        result += [*_twice(found), *masks.problems(row, expectation.order, _shares(expectation), found)]
    return result + _masks_already_set(expectation, row, found, environ)


def unknown(expectation: Expectation, row: Row, found: Found) -> list[tuple[str, str]]:
    """What the job asks for and nothing here says: the field, and why it cannot be checked."""
    if not found.how:
        reason = f"{row.name} devices cannot be checked by this version: nothing was looked at, {unlooked(row)}"
        return [(name, reason) for name in asked(expectation)]
    silent = []
    if expectation.product and not found.named and found.devices:
        silent.append(("product", f"product {' or '.join(expectation.product)}: {found.how} does not say products"))
    without = [position for position in _used(expectation, found) if not found.devices[position].memory]
    if expectation.memory is not None and without:
        text = f"memory of {size(expectation.memory)}: {found.how} does not say what {_numbered(without)}"
        silent.append(("memory", f"{text} {'has' if len(without) == 1 else 'have'}"))
    return [(name, f"{reason}, so it cannot be checked") for name, reason in silent]


def asked(expectation: Expectation) -> list[str]:
    """What of the devices this node is to be compared with."""
    given = {"product": expectation.product, "memory": expectation.memory}
    return ["devices", *(name for name, value in given.items() if value)]


def unlooked(row: Row) -> str:
    """What becomes of the mask where nobody looked."""
    return "its mask is by position" if row.maskValue in ("uuid", "index") else f"{row.maskEnv} is not written"


def size(number: int) -> str:
    """Bytes as a job file says them: ``79.64Gi``, ``64Mi``. Rounded down: what is found can be written as it stands."""
    unit, name = next(((unit, name) for unit, name in _UNITS if number >= unit), (1, ""))
    whole, hundredths = divmod(number * 100 // unit, 100)
    return f"{whole}.{hundredths:02}".rstrip("0").rstrip(".") + name


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
    return [f"{text}: {_hint(number > (exact or least), number, row)}{_because(found)}"]


def _hint(more: bool, number: int, row: Row) -> str:
    if more:
        cause = f"{row.exposureEnv} is set in the image or the pod, or " if row.exposureEnv else ""
        return f"this container holds devices that it did not ask for: {cause}it is privileged"
    if number == 0:
        return "was the resource requested, does the node's container runtime hand devices over, is its driver loaded?"
    return "the node's device plugin promised more than it handed over; replicas of one shared device count once"


def _because(found: Found) -> str:
    return f" ({'; '.join(found.notes)})" if found.notes else ""


def _product(expectation: Expectation, found: Found) -> list[str]:
    """Products that the job does not allow. A name that is not known cannot be checked, and is no match."""
    if not expectation.product or not found.devices or not found.named:
        return []
    allowed = {_without_sharing(label(name)) for name in expectation.product}
    names = sorted({label(device.name) for device in found.devices})
    wrong = [name or "a name that is not known" for name in names if _without_sharing(name) not in allowed]
    if not wrong:
        return []
    text = f"product {' or '.join(expectation.product)} expected, {', '.join(wrong)} found by {found.how}"
    return [f"{text}: another node, or this product too{_because(found)}"]


def _memory(expectation: Expectation, found: Found) -> list[str]:
    """Devices that the processes use, with less memory than asked for. One that does not say it is ``unknown``."""
    least = expectation.memory or 0
    smaller: dict[int, list[int]] = {}
    for position in _used(expectation, found):
        if 0 < found.devices[position].memory < least:
            smaller.setdefault(found.devices[position].memory, []).append(position)
    if not smaller:
        return []
    what = ", ".join(f"{size(memory)} on {_numbered(positions)}" for memory, positions in smaller.items())
    return [f"memory of {size(least)} or more expected on each device, {what} found by {found.how}: {_GIGABYTES}"]


_GIGABYTES = "a card sold as 80GB has about 79.6Gi, and a slice of it a part"


def _used(expectation: Expectation, found: Found) -> list[int]:
    """Positions of the devices that the processes use; all, where the numbers are the driver's own."""
    everything = range(len(found.devices))
    return [number for number in everything if expectation.order != "pci" or number in expectation.devices]


def _numbered(positions: list[int]) -> str:
    """``device 2``, ``devices 0, 1``."""
    listed = ", ".join(map(str, positions[:_SHOWN])) + (", ..." if len(positions) > _SHOWN else "")
    return f"device{'' if len(positions) == 1 else 's'} {listed}"


def label(name: str) -> str:
    """A driver's product name in the spelling of the vendor's node label."""
    kept = "".join(character for character in name if character.isalnum() or character in "-_. ")
    return "-".join(kept.split())


def _without_sharing(product: str) -> str:
    """The product without what the label says of its sharing: ``-SHARED``, ``-MIG-1g.5gb``."""
    return product.partition("-MIG-")[0].removesuffix("-SHARED")


def _twice(found: Found) -> list[str]:
    uuids = [device.uuid for device in found.devices if device.uuid]
    twice = sorted({uuid for uuid in uuids if uuids.count(uuid) > 1})
    names = ", ".join(twice)
    return [f"{names} was found more than once by {found.how}: they are one device, ask for fewer"] if twice else []


def _masks_already_set(expectation: Expectation, row: Row, found: Found, environ: dict[str, str]) -> list[str]:
    """Variables of the image or the user that say something else than the job."""
    result = []
    for name, values in _own_values(expectation, row, found).items():
        given = environ.get(name)
        if given is not None and given not in values and not _narrows(row, name, given, values[0]):
            result.append(f"{name}={given} is set already, and the job says {values[0] or 'none'}: {WAY_OUT}")
    return result + _other_masks(row, found, environ)


def _narrows(row: Row, name: str, given: str, ours: str) -> bool:
    """Whether the mask is the plugin's own list of modules: we may pick from it and permute it, not leave it."""
    return row.maskValue == "module" and name == row.maskEnv and set(ours.split(",")) <= set(given.split(","))


def _other_masks(row: Row, found: Found, environ: dict[str, str]) -> list[str]:
    """The vendor's further variables that choose: some count within our mask, and ours counts within others."""
    said = [row.exposureEnv, row.maskEnv, *(name for variables in row.orderEnv.values() for name in variables)]
    names = [name for name in row.ownedEnv if found.how and name in environ and name not in said]
    return [
        f"{name}={environ[name]} is set, and chooses devices too, beside {row.maskEnv}: {WAY_OUT}" for name in names
    ]


def _shares(expectation: Expectation) -> list[tuple[int, ...]]:
    """The positions that processes see: the node's, or with isolation ``process`` each rank's."""
    processes, isolation = expectation.processes_per_node, expectation.isolation
    if isolation != "process":
        return [expectation.devices]
    return [masks.share(expectation.devices, processes, rank, isolation) for rank in range(processes)]


def _own_values(expectation: Expectation, row: Row, found: Found) -> dict[str, list[str]]:
    """What each variable may hold before we write it: the node's mask or a rank's, as UUIDs or as positions."""
    processes, isolation = expectation.processes_per_node, expectation.isolation
    ranks = range(processes if isolation == "process" else 0)  # else every rank's mask is the node's
    shares = [masks.share(expectation.devices, processes, rank, isolation) for rank in ranks]
    values: dict[str, list[str]] = {}
    for devices in (found.devices, ()):
        for positions in (expectation.devices, *shares):
            for name, value in masks.variables(row, expectation.order, positions, devices).items():
                values.setdefault(name, []).append(value)
    return values


def _addresses(devices: tuple[Device, ...]) -> str:
    """`` (0000:3b:00.0, ...)``; nothing where no address is known."""
    known = [device.pci for device in devices if device.pci]
    more = ["..."] if len(known) > _SHOWN else []
    return f" ({', '.join(known[:_SHOWN] + more)})" if known else ""


def _listed(devices: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, devices))}]"

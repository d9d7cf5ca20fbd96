"""The device rules: the positions that each rank gets, and the mask that its driver reads. Pure."""

from __future__ import annotations

from k8sel.entrypoint import tables
from k8sel.entrypoint.lean import TYPE_CHECKING, record
from k8sel.entrypoint.tables import BY_NUMBER, Row

if TYPE_CHECKING:
    from typing import Iterable, Mapping, Sequence

    from k8sel.entrypoint.discovery import Device, Found
    from k8sel.entrypoint.protocol import Expectation

CHOOSING = "0123456789.!"  # intel/llvm sycl/doc/EnvironmentVariables.md, ONEAPI_DEVICE_SELECTOR


@record(frozen=True)
class Process:
    """One process of the node."""

    local_rank: int
    own: tuple[int, ...]  # positions of the devices that it uses
    variables: dict[str, str]  # masks
    parts: tuple[str, ...] = ()  # the part of each of these devices that it uses, where a device has units


def processes(row: Row, found: Found, hidden: dict[str, str], expectation: Expectation) -> list[Process]:
    """Returns the devices and the mask of each process of the node, without devices that are missing."""
    number, isolation = expectation.processes_per_node, expectation.isolation
    everything = everyones(row, found, hidden, expectation)
    placed, each = by_unit(row, expectation), sharing(row, expectation.devices, number)
    result = []
    for rank in range(number):
        seen = _there(own(expectation.devices, number, rank, isolation, each), found)
        seen = (placed and number > 1 and _holding(rank, found)) or seen
        alone = isolation == "process"  # then a rank sees only its own devices
        written = _hidden_or_masked(seen, row, found, hidden, expectation.order) if alone else everything
        unit = str(rank) if placed and number > 1 else ""
        result.append(Process(rank, seen, written, _parts(row, seen, found, unit)))
    return result


def by_unit(row: Row, expectation: Expectation) -> bool:
    """Tells whether the framework's plugin gives each process of torch's agent one unit, by its local rank."""
    if row.unit is None:
        return False
    launcher: dict[str, bool] = tables.launchers().get(expectation.launcher, {})
    return launcher.get("restarts", False)  # only torch's agent does


def sharing(row: Row, devices: Sequence[int], processes: int) -> int:
    """Returns how many consecutive processes share a device: several only where a process gets one of its units."""
    return max(1, processes // len(devices)) if row.unit and devices else 1


def _holding(unit: int, found: Found) -> tuple[int, ...]:
    """Returns the position of the device with this unit; nothing if the devices' units are not known."""
    known = [position for position, device in enumerate(found.devices) if device.number]
    return tuple(position for position in known if unit in _numbers(found.devices[position].number))


def _parts(row: Row, positions: tuple[int, ...], found: Found, unit: str) -> tuple[str, ...]:
    """Names the units that a process uses of each device: the one that the plugin gives it, or all."""
    if row.unit is None:
        return ()
    texts = [unit or (found.devices[position].number if found.how else "") for position in positions]
    numbers = [_range([text]) if text else "" for text in texts]
    return tuple(f"{row.unit}{'s' if '-' in number else ''} {number}" if number else "" for number in numbers)


def everyones(row: Row, found: Found, hidden: dict[str, str], expectation: Expectation) -> dict[str, str]:
    """Returns the variables of a process that sees all of the job's devices on this node.

    There is no mask where the framework's plugin makes each process's own: plugins read a given one differently
    (docs/decisions/0024).
    """
    positions = _there(expectation.devices, found)
    everything = positions == tuple(range(len(found.devices)))
    if positions and by_unit(row, expectation) and (everything or expectation.processes_per_node > 1):
        return {}
    return _hidden_or_masked(positions, row, found, hidden, expectation.order)


def part_env(row: Row, found: Found, expectation: Expectation) -> dict[str, str]:
    """Returns variables of a job's only process that uses one of several devices, where the vendor needs them."""
    alone = expectation.nodes * expectation.processes_per_node == 1
    return dict(row.partEnv) if alone and len(expectation.devices) == 1 < len(found.devices) else {}


def _there(positions: tuple[int, ...], found: Found) -> tuple[int, ...]:
    if not found.how:
        return positions
    return tuple(position for position in positions if position < len(found.devices))


def _hidden_or_masked(
    positions: tuple[int, ...], row: Row, found: Found, hidden: dict[str, str], order: str
) -> dict[str, str]:
    if hidden:
        return hidden
    if not positions:  # with check: warn, a job without its devices must not see all other devices
        return dict(row.maskHide)
    return {**found.counting, **variables(row, order, positions, found.devices)}


def needed(devices: Sequence[int]) -> int:
    """The number of devices that a node needs so that each of these positions has one."""
    return max(devices, default=-1) + 1


def default_count(row: Row | None) -> int:
    """The number of devices where the user names none: one, except for a type that has no devices."""
    return 0 if row and row.inContainer and row.maskEnv is None else 1


def uses_devices(row: Row, devices: Sequence[int]) -> bool:
    """Tells whether the job's processes get devices by a mask."""
    return row.maskEnv is not None and bool(devices)


def share(devices: tuple[int, ...], processes: int, local_rank: int, isolation: str) -> tuple[int, ...]:
    """Returns the positions in a local rank's mask: all, or with isolation ``process`` its own consecutive part."""
    if isolation != "process":
        return devices
    size = len(devices) // processes
    return devices[local_rank * size : (local_rank + 1) * size]


def shares(devices: tuple[int, ...], processes: int, isolation: str) -> list[tuple[int, ...]]:
    """Returns the positions in the masks of a node's processes: one for all, or one each (isolation ``process``)."""
    ranks = range(processes if isolation == "process" else 1)
    return [share(devices, processes, rank, isolation) for rank in ranks]


def own(devices: tuple[int, ...], processes: int, local_rank: int, isolation: str, sharing: int = 1) -> tuple[int, ...]:
    """Returns the positions that a local rank computes on: its ``devices[r]``; for a node's one process all of them.

    ``sharing``: the number of consecutive processes that share a device.
    """
    if isolation == "process" or processes == 1:
        return share(devices, processes, local_rank, isolation)
    return devices[local_rank // sharing :][:1]


def unequal(devices: Sequence[int], processes: int, isolation: str) -> bool:
    """Tells whether the processes would get shares of different sizes."""
    return isolation == "process" and len(devices) % processes != 0


def ungrouped(row: Row, number: int, numbers: Sequence[int] = ()) -> str:
    """Returns the groups to use instead, if the vendor documents groups and this is none of them; else nothing.

    Without the devices' ``numbers``, only how many they are is compared.
    """
    alike = [list(group) for group in row.groups if len(group) == number]
    if number < 2 or not row.groups or (alike and (not numbers or sorted(numbers) in alike)):
        return ""
    if alike:
        return " or ".join(",".join(map(str, group)) for group in alike)
    *fewer, most = sorted({len(group) for group in row.groups})
    return f"{', '.join(map(str, fewer))} or {most} devices"


def unordered(row: Row, shares: list[tuple[int, ...]]) -> bool:
    """Tells whether a process wants an order that its mask cannot have, because the mask is a set."""
    return not row.maskOrdered and any(list(seen) != sorted(seen) for seen in shares)


def variables(row: Row, order: str, positions: tuple[int, ...], devices: tuple[Device, ...]) -> dict[str, str]:
    """Returns mask and order variables for ``positions`` in ``devices``; by position if nothing better is known.

    Returns nothing if the vendor's mask needs numbers that were not found.
    """
    if row.maskEnv is None:
        return {}
    values = _values(row, order, positions, devices)
    text = _written(row, values) if values and all(values) else ""
    return {**row.orderEnv.get(order, {}), row.maskEnv: text} if text else {}


def _values(row: Row, order: str, positions: tuple[int, ...], devices: tuple[Device, ...]) -> list[str]:
    """Returns UUIDs if all are known, since no numbering changes them; ``fastest`` means the driver's own numbers.

    Without UUIDs the value is empty if one of several devices is a part of a GPU (MIG): then no number is known.
    """
    known = order == "pci" and all(position < len(devices) for position in positions)
    uuids = [devices[position].uuid for position in positions] if known else [""]
    numbers = [devices[position].number if known else "" for position in positions]
    if row.maskValue == "uuid" and all(uuids):
        return uuids
    if row.maskValue in BY_NUMBER:
        return numbers
    if row.maskValue == "uuid" and len(devices) > 1 and any(device.part for device in devices):
        return [""]
    return [number or str(position) for position, number in zip(positions, numbers)]  # noqa: B905  (strict= is Python 3.10's)


def _written(row: Row, values: list[str]) -> str:
    if row.maskValue == "range":
        return _range(values)
    return listed(values, row.maskOrdered)


def listed(values: list[str], ordered: bool) -> str:
    """Joins the values to a mask; ``ordered``: the vendor's mask keeps their order."""
    return ",".join(values if ordered else sorted(values, key=int))


def _range(values: list[str]) -> str:
    """Joins ranges to one: ``2-3`` and ``0-1`` are ``0-3``; empty if there is a gap between them."""
    numbers = sorted(number for value in values for number in _numbers(value))
    first, last = numbers[0], numbers[-1]
    if numbers != list(range(first, last + 1)):
        return ""
    return f"{first}-{last}" if last > first else str(first)


def size(text: str) -> int:
    """Counts the numbers in a range such as ``2-3``; 0 if it is not known."""
    return len(_numbers(text)) if text else 0


def _numbers(text: str) -> range:
    first, _, last = text.partition("-")
    return range(int(first), int(last or first) + 1)


def problems(row: Row, order: str, shares: list[tuple[int, ...]], found: Found) -> list[str]:
    """Names devices that a process cannot use together, and devices that no mask can name."""
    result = []
    for positions in dict.fromkeys(shares):
        if positions and needed(positions) <= len(found.devices):
            why = _uncounted(order, found) or _apart(row, positions, found) or _nameless(row, order, positions, found)
            result += [f"devices {list(positions)} {why}"] if why else []
    return result


def _uncounted(order: str, found: Found) -> str:
    """Returns why the driver's own order cannot be used; empty for one device, which is first in any order."""
    if order == "pci" or len(found.devices) < 2 or not any(device.part for device in found.devices):
        return ""
    return f"cannot be counted by order {order}, since the driver's numbers for parts are not known: use order: pci"


def _apart(row: Row, positions: tuple[int, ...], found: Found) -> str:
    """Returns why one process cannot use all these devices."""
    parts = [bool(found.devices[position].part) for position in positions]
    if found.alone and any(parts) and len(parts) > 1:
        return f"cannot be used by one process, since {found.alone}: set isolation: process, with one process for each"
    if row.maskValue == "uuid" and any(parts) and not all(parts):
        # torch/cuda/__init__.py, _parse_visible_devices: the first entry decides the kind of all entries
        return "cannot be used by one process, since PyTorch reads whole GPUs or parts (MIG) from a mask: use one kind"
    families = sorted({found.devices[position].family for position in positions} - {""})
    if len(families) > 1:
        return (
            f"cannot be used by one process, since they are of several product families ({', '.join(families)}), "
            f"{found.families}: set isolation: process, with one family for each"
        )
    return ""


def _nameless(row: Row, order: str, positions: tuple[int, ...], found: Found) -> str:
    """Returns why no mask can name these devices; empty if they are all the devices, which need no mask."""
    everything = positions == tuple(range(len(found.devices)))
    if everything or variables(row, order, positions, found.devices):
        return ""
    if row.maskValue == "range" and all(found.devices[position].number for position in positions):
        return f"cannot be used by one process, since {row.maskEnv} is one range: use neighbours"
    from k8sel.entrypoint.discovery import with_notes  # here alone: a plan uses the rules, and looks for no device

    return with_notes(f"cannot be named in {row.maskEnv}: no value for them is known by {found.how}", found)


def hidden(hides: Iterable[Mapping[str, str]]) -> dict[str, str]:
    """Joins each vendor's variables that hide its devices."""
    return {name: value for each in hides for name, value in each.items()}


def beside(row: Row, given: Mapping[str, str]) -> list[str]:
    """Returns the given variables that select devices beside the mask, other than exposure and order."""
    orders = [name for variables in row.orderEnv.values() for name in variables]
    known = {row.exposureEnv, row.maskEnv, *row.ignoredEnv, *orders}
    names = [name for name in row.ownedEnv if name in given and name not in known]
    return [name for name in names if not harmless(row.harmlessEnv.get(name, ()), given[name])]


def harmless(terms: Sequence[str], value: str) -> bool:
    """Tells whether a value has one of these terms, and neither a number nor an exception."""
    given = value.lower().split(";")
    return any(term in terms for term in given) and not any(sign in CHOOSING for sign in value)

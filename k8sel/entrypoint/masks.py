"""What a process sees: positions in the list of devices found become the variables that its driver reads. Pure."""

from __future__ import annotations

from k8sel.entrypoint.discovery import Device
from k8sel.entrypoint.tables import Row


def share(devices: tuple[int, ...], processes: int, local_rank: int, isolation: str) -> tuple[int, ...]:
    """The positions in a local rank's mask: all, or with isolation ``process`` its own consecutive part."""
    if isolation != "process":
        return devices
    size = len(devices) // processes
    return devices[local_rank * size : (local_rank + 1) * size]


def own(devices: tuple[int, ...], processes: int, local_rank: int, isolation: str) -> tuple[int, ...]:
    """The positions a local rank computes on: ``devices[r]`` of those it sees; all of them for a node's one process."""
    if isolation == "process" or processes == 1:
        return share(devices, processes, local_rank, isolation)
    return devices[local_rank : local_rank + 1]


def variables(row: Row, order: str, positions: tuple[int, ...], devices: tuple[Device, ...]) -> dict[str, str]:
    """Mask and order variables for ``positions`` in ``devices``; by position where nothing better is known.

    Empty where the vendor's mask needs numbers that were not found.
    """
    if row.maskEnv is None:
        return {}
    values = _values(row, order, positions, devices)
    if not all(values):
        return {}
    written = values if row.maskOrdered else sorted(values, key=int)
    return {**row.orderEnv.get(order, {}), row.maskEnv: ",".join(written)}


def _values(row: Row, order: str, positions: tuple[int, ...], devices: tuple[Device, ...]) -> list[str]:
    """UUIDs, which no numbering can turn, if all are known; order ``fastest`` is the driver's own numbers."""
    known = order == "pci" and all(position < len(devices) for position in positions)
    chosen = [devices[position] if known else Device() for position in positions]
    if row.maskValue == "uuid" and all(device.uuid for device in chosen):
        return [device.uuid for device in chosen]
    if row.maskValue == "module":
        return [device.number for device in chosen]
    return [device.number or str(position) for position, device in zip(positions, chosen)]  # noqa: B905  (strict= is Python 3.10's)


def hidden(rows: dict[str, Row]) -> dict[str, str]:
    """What hides the devices of every vendor that has a way to say so."""
    return {name: value for row in rows.values() for name, value in row.maskHide.items()}

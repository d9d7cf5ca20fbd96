"""Shows this machine's devices as a table for each type, or as JSON. Decides nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from k8sel.cli.show import plan
from k8sel.entrypoint.checks.product import label

if TYPE_CHECKING:
    from k8sel.entrypoint.discovery import Device
    from k8sel.facts.accelerators import Row
    from k8sel.machine.hardware import Seen

HEADER = ("INDEX", "PCI", "PART", "UUID", "PRODUCT", "MEMORY", "NUMA")
_GIBIBYTE = 2**30


def devices(seen: Sequence[Seen], masks: Mapping[str, str], output: str, facts: Sequence[Row] = ()) -> None:
    """Prints the devices of each type in ``seen``, as `table` or `json`, and the sources of the rows in ``facts``."""
    if output == "json":
        print(json.dumps(document(seen, masks, facts), indent=2))
        return
    here = [each for each in seen if each.found.devices]
    for number, each in enumerate(here):
        print("\n" * (number > 0), end="")
        _table(each)
    if not here:
        print(_none(seen))
    for row in facts:
        _facts(row)
    for name, value in masks.items():
        print(
            f"note: this shell sets {name}={value}: the list has all devices, but a program started here sees only "
            f"those in this mask. Unset it before `k8sel run`",
            file=sys.stderr,
        )


def document(seen: Sequence[Seen], masks: Mapping[str, str], facts: Sequence[Row] = ()) -> dict[str, Any]:
    """Returns what `-o json` prints."""
    types = [{**_type(each), **({"facts": _sourced(each.row)} if each.row in facts else {})} for each in seen]
    return {"types": types, "masks": dict(masks)}


def _table(each: Seen) -> None:
    print(plan.bold(_headline(each)))
    lines = [_cells(index, *device) for index, device in enumerate(_placed(each))]
    shown = [
        column for column, name in enumerate(HEADER) if name != "PART" or any(line[column] != "-" for line in lines)
    ]
    plan.table([HEADER[column] for column in shown], [[line[column] for column in shown] for line in lines])
    for note in each.found.notes:
        print(f"note: {note}")


def _headline(each: Seen) -> str:
    found, number = each.found, len(each.found.devices)
    driver = f", driver {found.driver}" if found.driver else ""
    runtime = f", runtime {found.runtime}" if found.runtime else ""
    devices = f"{number} device{'' if number == 1 else 's'}"
    return f"{each.row.name}: {each.row.title}: {devices} by {found.how}{driver}{runtime}"


def _placed(each: Seen) -> Iterator[tuple[Device, int | None]]:
    yield from zip(each.found.devices, each.numa, strict=True)


def _cells(index: int, device: Device, numa: int | None) -> tuple[str, ...]:
    product, memory = label(device.name), f"{device.memory / _GIBIBYTE:.1f}GiB" if device.memory else ""
    known = (device.pci, device.part, device.uuid, product, memory, "" if numa is None else str(numa))
    return (str(index), *(cell or "-" for cell in known))


def _facts(row: Row) -> None:
    lines = [(fact["fact"], each["day"] or "-", each["source"]) for fact in _sourced(row) for each in fact["sources"]]
    print(f"\n{plan.bold(f'facts about {row.name}' if lines else f'no fact about {row.name}: it has no device')}")
    if not lines:
        return
    plan.table(("FACT", "READ", "SOURCE"), lines)


def _sourced(row: Row) -> list[dict[str, Any]]:
    """Returns the facts of a row, each with its sources."""
    from k8sel.facts.sources import of_row, values

    return [
        {
            "fact": fact.field,
            "value": fact.value,
            "sources": [{"source": each.text, "day": each.day and each.day.isoformat()} for each in fact.sources],
        }
        for fact in of_row(row.name, values(row))
    ]


def _none(seen: Sequence[Seen]) -> str:
    """The message for a machine without devices: the types that k8sel looked for, and those that it cannot look for."""
    looked = [f"{each.row.name} ({each.found.how})" for each in seen if each.found.how]
    blind = [each.row.name for each in seen if not each.found.how and each.row.is_device]
    text = "no device of any kind is here" if len(seen) > 1 else f"no {seen[0].row.name} device is here"
    if looked:
        text += f": looked for {', '.join(looked)}"
    if blind:
        text += f"; this version cannot look for {', '.join(blind)}"
    notes = [f"note: {note}" for each in seen for note in each.found.notes]
    return "\n".join([text, *dict.fromkeys(notes)])


def _type(each: Seen) -> dict[str, Any]:
    return {
        "type": each.row.name,
        "title": each.row.title,
        "how": each.found.how or None,
        "driver": each.found.driver or None,
        "runtime": each.found.runtime or None,
        "notes": list(each.found.notes),
        "devices": [_device(index, *device) for index, device in enumerate(_placed(each))],
    }


def _device(index: int, device: Device, numa: int | None) -> dict[str, Any]:
    return {
        "index": index,
        "pci": device.pci or None,
        "part": device.part or None,
        "uuid": device.uuid or None,
        "product": label(device.name) or None,
        "name": device.name or None,
        "memory": device.memory or None,
        "numa": numa,
    }

"""Converts device variables to ``accelerator``, by their effect in the accelerator table. Names no vendor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.words import Word
from k8sel.entrypoint.masks import beside, needed
from k8sel.facts.accelerators import ROWS, Row
from k8sel.wording import bare, numbers, quote

_IDENTIFIER = re.compile(r"[A-Z]+-[0-9A-Za-z/-]+")  # a UUID, or the beginning of one
_EVERYTHING = ("all",)
NOTHING = ("none", "void", "")
HOST_NUMBERS = "leave UUIDs to k8sel: on a cluster, the device plugin picks the devices"


class Choice(Struct, frozen=True, kw_only=True):
    """The devices that a variable selects, in order, or only their number."""

    devices: tuple[int, ...] | None = None
    count: int | None = None


def settle(draft: Draft, forced: str | None) -> Row:
    """Returns the row that the line means, and sets count, devices and order from its variables."""
    owned = {name: draft.env.pop(name) for name in list(draft.env) if _owners(name)}
    row = _row(draft, owned, forced)
    path = ("spec", "accelerator")
    source = draft.row_hints.get(row.name) or next(iter(owned.values()), None)
    if source:
        draft.put((*path, "type"), row.name, source)
    if not row.is_device:
        for name, word in owned.items():
            draft.note(
                word, f"{name} is not carried over: type {row.name} has no devices, and k8sel hides every vendor's"
            )
        return row
    _exposure(draft, row, owned)
    _order(draft, row, owned)
    _mask(draft, row, owned)
    return row


def _owners(name: str) -> list[Row]:
    return [row for row in ROWS.values() if name in row.owned_env]


def _row(draft: Draft, owned: Mapping[str, Word], forced: str | None) -> Row:
    """Returns the row by the option, the line's other words or its device variables; else the first that fits."""
    if forced:
        return ROWS[forced]
    if draft.row_hints:
        return ROWS[next(iter(draft.row_hints))]
    naming = [name for name, word in owned.items() if _names_devices(_owners(name)[0], name, word)]
    rows = [row for row in ROWS.values() if all(name in row.owned_env for name in naming or owned)]
    if rows:
        served = [ROWS[name] for name in draft.serves if ROWS[name] in rows]
        return (served or rows)[0]
    named = [_owners(name)[0] for name in naming or owned]
    other = next(row for row in named if row is not named[0])
    word = owned[next(name for name in naming or owned if _owners(name)[0] is other)]
    message = f"the line names devices of types {named[0].name} and {other.name}, but a job has one type"
    draft.refuse(word, message, "choose one with --accelerator")
    return named[0]


def _names_devices(row: Row, name: str, word: Word) -> bool:
    return name not in row.order_env and word.text not in (*NOTHING, row.mask_hide.get(name, ""))


def _exposure(draft: Draft, row: Row, owned: Mapping[str, Word]) -> None:
    """Reads the variable that exposes the host's devices to a container, as a set."""
    word = owned.get(row.exposure_env or "")
    if word is None:
        return
    name = str(row.exposure_env)
    if not draft.in_container:
        message = f"{name} has no effect here: only a container's runtime reads it, not a process"
        draft.warn(word, message, f"use {row.mask_env}, which a process reads")
    elif word.text not in _EVERYTHING and draft.known(word):
        expose(draft, row, word, name)


def expose(draft: Draft, row: Row, word: Word, name: str) -> None:
    """Records the host's devices that ``word`` lists for the container."""
    if word.text in NOTHING:
        draft.exposed = ()
        return
    choice = _chosen(draft, row, word, word.text.split(","), name)
    if choice.devices is None:
        draft.exposed_count = choice.count
        return
    draft.exposed = tuple(sorted(choice.devices))
    if draft.exposed != choice.devices:
        message = f"{name} is a set: the container numbers its devices {numbers(draft.exposed)} from 0, in this order"
        draft.warn(word, message, "set devices to give the processes an order")


def _order(draft: Draft, row: Row, owned: Mapping[str, Word]) -> None:
    """Sets the order in which device numbers count."""
    names = {name for variables in row.order_env.values() for name in variables}
    for name in names & owned.keys():
        word = owned[name]
        found = [order for order, variables in row.order_env.items() if variables.get(name) == word.text]
        if found:
            draft.put(("spec", "accelerator", "order"), found[0], word)
        else:
            known = " or ".join(variables[name] for variables in row.order_env.values() if name in variables)
            message = f"{name}={bare(word.text)} is not carried over: type {row.name} takes only {known}"
            draft.warn(word, message, "write `devices` in that numbering")


def _mask(draft: Draft, row: Row, owned: Mapping[str, Word]) -> None:
    """Sets the devices that the processes see, and their order."""
    orders = {name for variables in row.order_env.values() for name in variables}
    masks = {name: word for name, word in owned.items() if name in row.owned_env and name not in orders}
    masks.pop(row.exposure_env or "", None)
    _leave_out(draft, row, masks)
    for name, word in owned.items():
        if name not in row.owned_env:
            draft.note(
                word,
                f"{name} is not carried over: it does not belong to type {row.name}",
                "leave it out: k8sel hides unused devices",
            )
    if draft.replaces_masks:
        _replaced(draft, row, masks)
        return
    if len(masks) > 1:
        first, second = list(masks)[:2]
        message = f"{second} selects among the devices of {first}, but a job file has one selection"
        draft.refuse(masks[second], message, "keep the one that selects the devices")
    for name, word in list(masks.items())[:1]:
        if draft.known(word):
            choose(draft, row, word, name)
    if not masks:
        _exposed_alone(draft, row)


def _leave_out(draft: Draft, row: Row, masks: dict[str, Word]) -> None:
    """Removes variables that select no device: by their value, or because the vendor ignores them beside its mask."""
    selecting = beside(row.at_start, {name: word.text for name, word in masks.items()})
    ignored = row.ignored_env if row.mask_env in masks else ()
    for name in [name for name in masks if name in ignored or (name in row.harmless_env and name not in selecting)]:
        draft.note(masks.pop(name), f"{name} is not carried over: it selects no device here", "leave it out")


def _replaced(draft: Draft, row: Row, masks: Mapping[str, Word]) -> None:
    """Reads the launcher's option that replaces every mask."""
    for name, word in masks.items():
        draft.warn(word, f"{name} has no effect: {draft.replaces_masks} counts instead", "keep one of the two")
    if draft.selection and draft.known(draft.selection):
        choose(draft, row, draft.selection, draft.replaces_masks)
    elif not draft.selection:
        _exposed_alone(draft, row)


def choose(draft: Draft, row: Row, word: Word, name: str) -> None:
    """Sets ``devices`` and ``count`` from the mask ``word``."""
    path = ("spec", "accelerator")
    hidden_by = row.mask_hide.get(name, "") if row.mask_hide else None
    if word.text == "" and hidden_by != "":
        draft.warn(
            word, f"{name} is empty, which hides nothing from type {row.name}", "set devices: [] to hide all of them"
        )
        return _exposed_alone(draft, row)
    choice = Choice(devices=()) if word.text == hidden_by else _chosen(draft, row, word, word.text.split(","), name)
    if choice.devices is None:
        draft.put((*path, "count"), choice.count, word)
        return None
    devices = _within(draft, word, choice.devices)
    if list(devices) != sorted(devices) and (draft.sorts or not row.mask_ordered):
        devices = _sorted(draft, row, word, devices, name)
    draft.put((*path, "devices"), devices, word)
    if devices:
        count = draft.fields.get((*path, "count"), 0)
        if count < needed(devices):
            draft.put((*path, "count"), needed(devices), word)
        _counting(draft, row, word)
    return None


def _exposed_alone(draft: Draft, row: Row) -> None:
    """Selects all of the container's devices, in their own order."""
    path = ("spec", "accelerator")
    word = draft.row_hints.get(row.name) or Word(text="", start=0, end=0)
    if draft.exposed is not None:
        draft.put((*path, "devices"), draft.exposed, word)
        if draft.exposed:
            draft.put((*path, "count"), needed(draft.exposed), word)
    elif draft.exposed_count is not None:
        draft.put((*path, "count"), draft.exposed_count, word)


def _within(draft: Draft, word: Word, positions: Sequence[int]) -> tuple[int, ...]:
    """Returns the host's numbers of a container's devices."""
    if draft.exposed is None:
        return tuple(positions)
    missing = [each for each in positions if each >= len(draft.exposed)]
    if missing:
        message = f"device {missing[0]} is not in the container, which has {len(draft.exposed)}"
        draft.refuse(word, message, "count from 0, as the container does")
        return ()
    return tuple(draft.exposed[each] for each in positions)


def _sorted(draft: Draft, row: Row, word: Word, devices: tuple[int, ...], name: str) -> tuple[int, ...]:
    """Returns the devices of a mask that is a set, in ascending order; warns that the order is lost."""
    ordered = tuple(sorted(devices))
    why = f": {draft.sorts}" if draft.sorts else f": for type {row.name} a mask is a set"
    message = (
        f"{name}={bare(word.text)} does not order devices{why}. The line uses {numbers(ordered)}, and so does the job"
    )
    process = f"set devices: {numbers(devices)} and isolation: process to give each process its own, in that order"
    hint = f"set devices: {numbers(devices)} to keep the order" if row.mask_ordered else process
    draft.warn(word, message, hint)
    return ordered


def _counting(draft: Draft, row: Row, word: Word) -> None:
    """Notes that a job file counts by PCI address, where a driver has several orders."""
    if len(row.order_env) > 1 and ("spec", "accelerator", "order") not in draft.fields:
        others = ", ".join(order for order in row.order_env if order != "pci")
        name = next(iter(row.order_env["pci"]))
        message = f"a job file counts devices by PCI address; without {name}, the driver uses its own order"
        draft.note(word, message, f"set order: {others} to change that")


def _chosen(draft: Draft, row: Row, word: Word, tokens: Sequence[str], name: str) -> Choice:
    """Returns the devices that a comma-separated list names."""
    listed = [token.strip() for token in tokens]
    if listed and all(_IDENTIFIER.fullmatch(token) for token in listed):
        draft.warn(word, f"only the number of devices in {bare(word.text)} is carried over", HOST_NUMBERS)
        return Choice(count=len(listed))
    devices = tuple(_numbers(draft, row, word, listed, name))
    twice = next((each for index, each in enumerate(devices) if each in devices[:index]), None)
    if twice is not None:
        draft.refuse(word, f"{name} names device {twice} twice, which is undefined", "name it once")
    return Choice(devices=tuple(dict.fromkeys(devices)))


def _numbers(draft: Draft, row: Row, word: Word, tokens: Sequence[str], name: str) -> Iterator[int]:
    """Yields the numbers of a list; an ordered mask ends at a negative number, as the driver reads it."""
    for index, token in enumerate(tokens):
        if re.fullmatch(r"[0-9]{1,3}", token):
            yield int(token)
            continue
        if row.mask_ordered and re.fullmatch(r"-[0-9]+", token):
            message = f"{name} ends at {quote(token)}: {index} of its {len(tokens)} devices are used, in the job too"
            draft.warn(word, message, "leave out the rest")
        else:
            draft.refuse(
                word, f"{quote(token)} in {name} is not the number of a device", "write numbers, for example 0,2"
            )
        return

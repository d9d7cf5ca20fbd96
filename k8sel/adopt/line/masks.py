"""Variables about devices to ``accelerator``: what they really do, by the accelerator table. Names no vendor."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.words import Word
from k8sel.facts.accelerators import ROWS, Row
from k8sel.wording import bare, numbers, quote

_IDENTIFIER = re.compile(r"[A-Z]+-[0-9A-Za-z/-]+")  # a UUID, or the beginning of one
_EVERYTHING = ("all",)
NOTHING = ("none", "void", "")
HOST_NUMBERS = "k8sel finds the devices' UUIDs itself: on a cluster the device plugin picks the devices"


class Choice(Struct, frozen=True, kw_only=True):
    """What a variable chooses: devices in an order, or a number of them."""

    devices: tuple[int, ...] | None = None
    count: int | None = None


def row_of_cpus() -> Row:
    """The row of jobs without devices."""
    return next(row for row in ROWS.values() if not row.is_device and row.in_container)


def settle(draft: Draft, forced: str | None) -> Row:
    """The row that the line means; what its variables choose becomes count, devices and order."""
    owned = {name: draft.env.pop(name) for name in list(draft.env) if _owners(name)}
    row = _row(draft, owned, forced)
    path = ("spec", "accelerator")
    source = draft.row_hints.get(row.name) or next(iter(owned.values()), None)
    if source:
        draft.put((*path, "type"), row.name, source)
    if not row.is_device:
        for name, word in owned.items():
            draft.note(
                word, f"{name} is not carried over: type {row.name} has no devices, and every vendor's are hidden"
            )
        return row
    _exposure(draft, row, owned)
    _order(draft, row, owned)
    _mask(draft, row, owned)
    return row


def _owners(name: str) -> list[Row]:
    return [row for row in ROWS.values() if name in row.owned_env]


def _row(draft: Draft, owned: Mapping[str, Word], forced: str | None) -> Row:
    """By the option, what the line says elsewhere, the variables about devices; else the backend's or table's first."""
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
    message = f"this line is about devices of types {named[0].name} and {other.name}, and a job has one type"
    draft.refuse(word, message, "--accelerator says which")
    return named[0]


def _names_devices(row: Row, name: str, word: Word) -> bool:
    return name not in row.order_env and word.text not in (*NOTHING, row.mask_hide.get(name, ""))


def _exposure(draft: Draft, row: Row, owned: Mapping[str, Word]) -> None:
    """Which of the host's devices enter the container: a set."""
    word = owned.get(row.exposure_env or "")
    if word is None:
        return
    name = str(row.exposure_env)
    if not draft.in_container:
        message = f"{name} has no effect here: only a container's runtime reads it, not a process"
        draft.warn(word, message, f"{row.mask_env} is what a process reads")
    elif word.text not in _EVERYTHING and draft.known(word):
        expose(draft, row, word, name)


def expose(draft: Draft, row: Row, word: Word, name: str) -> None:
    """``word`` lists the host's devices that enter the container."""
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
        draft.warn(word, message, "devices gives the processes an order")


def _order(draft: Draft, row: Row, owned: Mapping[str, Word]) -> None:
    """How numbers count."""
    names = {name for variables in row.order_env.values() for name in variables}
    for name in names & owned.keys():
        word = owned[name]
        found = [order for order, variables in row.order_env.items() if variables.get(name) == word.text]
        if found:
            draft.put(("spec", "accelerator", "order"), found[0], word)
        else:
            known = " or ".join(variables[name] for variables in row.order_env.values() if name in variables)
            message = f"{name}={bare(word.text)} is not carried over: type {row.name} counts as {known} says"
            draft.warn(word, message, "`devices` in that numbering")


def _mask(draft: Draft, row: Row, owned: Mapping[str, Word]) -> None:
    """What the processes see, and in which order."""
    orders = {name for variables in row.order_env.values() for name in variables}
    masks = {name: word for name, word in owned.items() if name in row.owned_env and name not in orders}
    masks.pop(row.exposure_env or "", None)
    for name, word in owned.items():
        if name not in row.owned_env:
            draft.note(
                word, f"{name} is not carried over: it is not of type {row.name}", "k8sel hides what is not used"
            )
    if draft.replaces_masks:
        _replaced(draft, row, masks)
        return
    if len(masks) > 1:
        first, second = list(masks)[:2]
        message = f"{second} counts what {first} leaves over, and a job file has one selection"
        draft.refuse(masks[second], message, "keep the one that chooses the devices")
    for name, word in list(masks.items())[:1]:
        if draft.known(word):
            choose(draft, row, word, name)
    if not masks:
        _exposed_alone(draft, row)


def _replaced(draft: Draft, row: Row, masks: Mapping[str, Word]) -> None:
    """The launcher has an option that counts instead of every mask."""
    for name, word in masks.items():
        draft.warn(word, f"{name} has no effect: {draft.replaces_masks} counts instead", "keep one of the two")
    if draft.selection and draft.known(draft.selection):
        choose(draft, row, draft.selection, draft.replaces_masks)
    elif not draft.selection:
        _exposed_alone(draft, row)


def choose(draft: Draft, row: Row, word: Word, name: str) -> None:
    """``word`` is a mask: ``devices`` and ``count`` say the same."""
    path = ("spec", "accelerator")
    hidden_by = row.mask_hide.get(name, "") if row.mask_hide else None
    if word.text == "" and hidden_by != "":
        draft.warn(word, f"{name} is empty, which hides nothing from type {row.name}", "devices: [] hides all of them")
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
        asked = draft.fields.get((*path, "count"), 0)
        if asked <= max(devices):
            draft.put((*path, "count"), max(devices) + 1, word)
        _counting(draft, row, word)
    return None


def _exposed_alone(draft: Draft, row: Row) -> None:
    """A container's devices, all of them, in their own order."""
    path = ("spec", "accelerator")
    word = draft.row_hints.get(row.name) or Word(text="", start=0, end=0)
    if draft.exposed is not None:
        draft.put((*path, "devices"), draft.exposed, word)
        if draft.exposed:
            draft.put((*path, "count"), max(draft.exposed) + 1, word)
    elif draft.exposed_count is not None:
        draft.put((*path, "count"), draft.exposed_count, word)


def _within(draft: Draft, word: Word, positions: Sequence[int]) -> tuple[int, ...]:
    """The host's numbers of a container's devices."""
    if draft.exposed is None:
        return tuple(positions)
    missing = [each for each in positions if each >= len(draft.exposed)]
    if missing:
        message = f"device {missing[0]} is not in the container, which has {len(draft.exposed)}"
        draft.refuse(word, message, "a container numbers its devices from 0")
        return ()
    return tuple(draft.exposed[each] for each in positions)


def _sorted(draft: Draft, row: Row, word: Word, devices: tuple[int, ...], name: str) -> tuple[int, ...]:
    """A mask that is a set, as what it does."""
    ordered = tuple(sorted(devices))
    why = f": {draft.sorts}" if draft.sorts else f": for type {row.name} a mask is a set"
    message = (
        f"{name}={bare(word.text)} does not order devices{why}. What is used is {numbers(ordered)}, and so it is here"
    )
    process = f"devices: {numbers(devices)} with isolation: process gives each process its own, in that order"
    hint = f"devices: {numbers(devices)} has the order" if row.mask_ordered else process
    draft.warn(word, message, hint)
    return ordered


def _counting(draft: Draft, row: Row, word: Word) -> None:
    """Where a driver has several ways to count, the job file's own is `pci`."""
    if len(row.order_env) > 1 and ("spec", "accelerator", "order") not in draft.fields:
        others = ", ".join(order for order in row.order_env if order != "pci")
        name = next(iter(row.order_env["pci"]))
        message = f"the numbers count by PCI address in a job file; without {name} the driver has a way of its own"
        draft.note(word, message, f"order: {others}, where they are to count so")


def _chosen(draft: Draft, row: Row, word: Word, tokens: Sequence[str], name: str) -> Choice:
    """The devices that a comma-separated list names."""
    listed = [token.strip() for token in tokens]
    if listed and all(_IDENTIFIER.fullmatch(token) for token in listed):
        draft.warn(word, f"which devices {bare(word.text)} are is not carried over, only how many", HOST_NUMBERS)
        return Choice(count=len(listed))
    devices = tuple(_numbers(draft, row, word, listed, name))
    twice = next((each for index, each in enumerate(devices) if each in devices[:index]), None)
    if twice is not None:
        draft.refuse(word, f"{name} names device {twice} twice, and what that does is not defined", "name it once")
    return Choice(devices=tuple(dict.fromkeys(devices)))


def _numbers(draft: Draft, row: Row, word: Word, tokens: Sequence[str], name: str) -> Iterator[int]:
    """The numbers of a list; an ordered one ends at the first that is none, as the driver reads it."""
    for index, token in enumerate(tokens):
        if re.fullmatch(r"[0-9]{1,3}", token):
            yield int(token)
            continue
        if row.mask_ordered and re.fullmatch(r"-[0-9]+", token):
            message = f"{name} ends at {quote(token)}: {index} of its {len(tokens)} devices are used, and so it is here"
            draft.warn(word, message, "leave out what is behind")
        else:
            draft.refuse(word, f"{quote(token)} in {name} is not the number of a device", "for example 0,2")
        return

"""Makes an expectation without a job file, from the variables K8SEL_ACCELERATOR, K8SEL_COUNT, K8SEL_DEVICES, ..."""

from __future__ import annotations

import os

from k8sel.entrypoint.lean import TYPE_CHECKING
from k8sel.entrypoint.machine import whole
from k8sel.entrypoint.protocol import CHECK, MOST, PLAIN, Expectation
from k8sel.entrypoint.report import Stop

if TYPE_CHECKING:
    from typing import Callable, TypeVar

    from k8sel.entrypoint.tables import Row

    T = TypeVar("T")


def expectation(environ: dict[str, str], command: list[str]) -> Expectation:
    """Makes the expectation from the plain variables; a launcher in ``command`` starts one process per device."""
    from k8sel.entrypoint import masks, tables

    accelerator = environ.get("K8SEL_ACCELERATOR", "")
    if not accelerator:
        raise Stop(["K8SEL_ACCELERATOR is not set: set it too, as in K8SEL_ACCELERATOR=cuda"])
    _refuse_similar(environ)
    count = _field(environ, "K8SEL_COUNT", _number)
    devices, row = _field(environ, "K8SEL_DEVICES", _numbers), tables.accelerators().get(accelerator)
    if devices is None:
        default = masks.default_count(row)
        devices = tuple(range(default if count is None else count)) if default else ()
    launchers = tables.launchers()
    launcher = os.path.basename(command[0]) if command else ""
    launcher = launcher if launcher in launchers else "python"
    return Expectation(
        accelerator=accelerator,
        devices=devices,
        count=count,
        order=_field(environ, "K8SEL_ORDER", _one_of("pci", "fastest")) or "pci",
        product=_field(environ, "K8SEL_PRODUCT", _words) or (),
        launcher=launcher,
        backend=environ.get("K8SEL_BACKEND", ""),
        processes_per_node=1 if launchers[launcher]["startsOne"] else _processes(row, devices, command),
        memory=_field(environ, "K8SEL_MEMORY", _bytes),
        check=check(environ),
        rank_command=_behind_rank(command),
    )


def _processes(row: Row | None, devices: tuple[int, ...], command: list[str]) -> int:
    """Returns one process for each device; where a device has units, the number that the command has for torchrun."""
    for place, word in enumerate(command if row and row.unit else []):
        option, _, value = word.partition("=")
        if option.replace("_", "-") == "--nproc-per-node":
            return whole(value or " ".join(command[place + 1 : place + 2])) or 1
    return max(1, len(devices))


def _behind_rank(command: list[str]) -> int:
    """Counts the words behind ``k8sel-entrypoint rank --``, where the user wrote that in a launcher's command."""
    starts = [place + 2 for place, word in enumerate(command[:-2]) if (word, command[place + 1]) == ("rank", "--")]
    return len(command) - starts[0] if starts else 0


def _refuse_similar(environ: dict[str, str]) -> None:
    """Raises Stop for a name close to one of ours, such as K8SEL_DEVICE, which nothing would read."""
    for ours in (*PLAIN, CHECK):
        for name in sorted(environ):
            near = name.startswith(ours) or (ours.startswith(name) and len(name) > len("K8SEL_"))
            if near and name not in (*PLAIN, CHECK):
                raise Stop([f"unknown variable {name}: write {ours}, or remove it"])


def check(environ: dict[str, str]) -> str:
    """Returns the level of the check, from K8SEL_CHECK."""
    return _field(environ, "K8SEL_CHECK", _one_of("enforce", "warn", "off")) or "enforce"


def _field(environ: dict[str, str], name: str, read_as: Callable[[str], T]) -> T | None:
    """Reads one variable; None if it is not set. Raises Stop with the variable's name if the value is wrong."""
    if name not in environ:
        return None
    try:
        return read_as(environ[name])
    except ValueError as error:
        raise Stop([f"{name}={environ[name]} is {error}"]) from None


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > 5 or int(text) > MOST:
        raise ValueError(f"not a whole number from 0 to {MOST}")
    return int(text)


def _numbers(text: str) -> tuple[int, ...]:
    try:
        return tuple(_number(part.strip()) for part in text.split(",")) if text.strip() else ()
    except ValueError:
        raise ValueError("not a list of positions: write it as in 2,0") from None


def _bytes(text: str) -> int | None:
    """Reads a size; None for an empty text, such as an empty variable of an image."""
    from k8sel.entrypoint.checks import product

    return product.parse(text.strip()) if text.strip() else None


def _words(text: str) -> tuple[str, ...]:
    words = tuple(word.strip() for word in text.split(",") if word.strip())
    if text.strip() and not words:
        raise ValueError("not a list of products: write them with commas between")
    return words


def _one_of(*allowed: str) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in allowed:
            raise ValueError(f"none of {', '.join(allowed)}")
        return text

    return check

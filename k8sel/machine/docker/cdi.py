"""Finds the CDI (Container Device Interface) device of each device of this machine. Needs no daemon."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path

import msgspec
from msgspec import Struct

from k8sel.errors import ContainersError
from k8sel.facts.accelerators import Row

FOLDERS = ("etc/cdi", "var/run/cdi")  # container-device-interface SPEC.md; Docker's own default


class _Node(Struct, frozen=True):
    path: str


class _Edits(Struct, frozen=True, rename="camel"):
    device_nodes: tuple[_Node, ...] = ()


class _Device(Struct, frozen=True, rename="camel"):
    name: str
    container_edits: _Edits = _Edits()


class _Spec(Struct, frozen=True):
    kind: str
    devices: tuple[_Device, ...] = ()


def names(row: Row, numbers: Sequence[int], nodes: Sequence[str], root: str = "") -> dict[int, str]:
    """The CDI device of each of ``numbers``. ``nodes``: the device nodes, in the order of the numbers.

    If the table has no names, because they differ by version, k8sel takes the CDI device that adds this node and no
    other device's. ``root``: the folder of a test machine.
    """
    kind = str(row.docker_cdi)
    if "{n}" in kind:
        return {number: kind.format(n=number) for number in numbers}
    specs = list(_specs(kind, root)) if numbers else []
    return {number: f"{kind}={_exposing(number, nodes, specs, row)}" for number in numbers}


def _exposing(number: int, nodes: Sequence[str], specs: Sequence[_Spec], row: Row) -> str:
    if number >= len(nodes):
        raise ContainersError(
            f"k8sel: the job uses {row.name} device {number}, and this machine has {len(nodes)} (counted from 0). "
            f"Hint: use smaller numbers, or install {row.docker_needs}"
        )
    wanted, others = nodes[number], {*nodes} - {nodes[number]}
    nodes_of = {each.name: {node.path for node in each.container_edits.device_nodes} for each in _devices(specs)}
    alone = [name for name, paths in nodes_of.items() if wanted in paths and not paths & others]
    if not alone:
        where = ", ".join(f"/{folder}" for folder in FOLDERS)
        message = f"no CDI device in {where} exposes {wanted} alone"
        raise ContainersError(f"k8sel: {message}. Hint: this machine needs {row.docker_cdi_needs}")
    return alone[0]


def _devices(specs: Sequence[_Spec]) -> Iterator[_Device]:
    return chain.from_iterable(spec.devices for spec in specs)


def _specs(kind: str, root: str) -> Iterator[_Spec]:
    """The machine's specs of ``kind``. Skips a spec that it cannot read: the daemon reports it."""
    files = chain.from_iterable(sorted(Path(root or "/", folder).glob("*.[jy]*")) for folder in FOLDERS)
    for file in files:
        try:
            spec = msgspec.yaml.decode(file.read_bytes(), type=_Spec)  # JSON is YAML, too
        except (OSError, msgspec.MsgspecError):
            continue
        if spec.kind == kind:
            yield spec

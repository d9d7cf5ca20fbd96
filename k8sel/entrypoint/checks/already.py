"""Compares variables of the image or the user that also choose devices with the job. Pure."""

from __future__ import annotations

from k8sel.entrypoint import masks
from k8sel.entrypoint.discovery import Found
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.tables import Row

_HINT = "remove it from the image or the job's env"


def problems(expectation: Expectation, row: Row, found: Found, environ: dict[str, str]) -> list[str]:
    """Refuses variables of the image or the user that contradict the job."""
    result = []
    for name, values in _own_values(expectation, row, found).items():
        given = environ.get(name)
        if given is not None and given not in values and not _narrows(row, name, given, values[0]):
            result.append(f"{name}={given} is set, {values[0] or 'none'} expected: {_HINT}")
    return result + _other_masks(row, found, environ)


def without_effect(row: Row, environ: dict[str, str]) -> list[str]:
    """Notes variables that the vendor ignores beside the mask."""
    given = [name for name in row.ignoredEnv if name in environ]
    return [f"{name}={environ[name]} has no effect beside {row.maskEnv}" for name in given]


def problems_with_none(hidden: dict[str, str], environ: dict[str, str]) -> list[str]:
    """Refuses variables that show devices to a job that uses none; ``hidden``: the variables that it sets."""
    return [
        f"{name}={environ[name]} is set, and the job uses no device: {_HINT}"
        for name, value in hidden.items()
        if environ.get(name, value) != value
    ]


def _own_values(expectation: Expectation, row: Row, found: Found) -> dict[str, list[str]]:
    """Returns the values that each variable may already have: a node's or a rank's mask, as UUIDs or positions."""
    shares = masks.shares(expectation.devices, expectation.processes_per_node, expectation.isolation)
    values: dict[str, list[str]] = {}
    for devices in (found.devices, ()):
        for positions in (expectation.devices, *shares):
            for name, value in masks.variables(row, expectation.order, positions, devices).items():
                values.setdefault(name, []).append(value)
    return values


def _narrows(row: Row, name: str, given: str, ours: str) -> bool:
    """Reports if the mask is the plugin's own list of modules: the job may use a part of it, in any order."""
    return row.maskValue == "module" and name == row.maskEnv and set(ours.split(",")) <= set(given.split(","))


def _other_masks(row: Row, found: Found, environ: dict[str, str]) -> list[str]:
    """Returns the vendor's other variables that choose devices, which count within our mask or around it."""
    names = masks.beside(row, environ) if found.how else []
    return [f"{name}={environ[name]} is set, and selects devices beside {row.maskEnv}: {_HINT}" for name in names]

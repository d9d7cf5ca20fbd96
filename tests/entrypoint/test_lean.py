"""The entrypoint's own JSON says what ``json`` says; its records are what dataclasses are."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from k8sel.entrypoint import lean, protocol
from k8sel.entrypoint.lean import replace
from k8sel.entrypoint.protocol import Expectation

VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(),
    lambda inner: some.lists(inner) | some.dictionaries(some.text(), inner),
)


@given(VALUES)
def test_dumps_as_json(value: object) -> None:
    assert lean.dumps(value) == json.dumps(value, sort_keys=True, separators=(",", ":"))


@given(VALUES)
def test_loads_as_json(value: object) -> None:
    assert lean.loads(json.dumps(value)) == value
    assert lean.loads(json.dumps(value, indent=1) + "\n") == value


@pytest.mark.parametrize("text", ["", "{", "[1,]", "{} x", "nul", '"\t"', '{"a":}', "NaN]", "\ufeff{}", "[" * 100_000])
def test_refused_as_by_json(text: str) -> None:
    with pytest.raises((ValueError, RecursionError)) as theirs:
        json.loads(text)
    with pytest.raises((ValueError, RecursionError)) as ours:
        lean.loads(text)
    assert str(ours.value) == str(theirs.value)


EXPECTATIONS: list[dict[str, Any]] = [
    {"accelerator": "cpu", "devices": ()},
    {"accelerator": "cuda", "devices": (2, 0), "count": 3, "check": "warn"},
    {"accelerator": "cuda", "devices": (0,), "count": 0, "threads_per_process": 4, "probe": ("mpirun", "-n", "1", "é")},
    {"accelerator": "cuda", "devices": (0,), "product": ("A", "B"), "isolation": "process", "launcher": "torchrun"},
]


@pytest.mark.parametrize("fields", EXPECTATIONS)
def test_an_expectation_survives_its_journey(fields: dict[str, Any]) -> None:
    made = Expectation(**fields)
    text = made.to_json()
    assert protocol.parse(text) == made
    assert text == json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    assert len(json.loads(text)) == 1 + len(fields)


def test_records_are_frozen_values() -> None:
    one = Expectation("cuda", (0,))
    assert one == Expectation("cuda", devices=(0,))
    assert hash(one) == hash(Expectation("cuda", (0,)))
    assert one != Expectation("cuda", (1,))
    assert replace(one, count=2).count == 2
    assert repr(one).startswith("Expectation(")
    with pytest.raises((AttributeError, FrozenInstanceError)):
        one.count = 3  # type: ignore[misc]
    for wrong in ({"devices": ()}, {"accelerator": "a", "devices": (), "x": 1}):
        with pytest.raises(TypeError):
            Expectation(**wrong)

"""Order and meaning of variables."""

from __future__ import annotations

import pytest

from k8sel.jobfile.spec import EnvVar
from k8sel.planning import env
from planning.jobs import plan


def test_constants_come_first_and_what_refers_to_them_last() -> None:
    field = {"fieldRef": {"fieldPath": "metadata.name"}}
    given = [
        EnvVar(name="PATHS", value="$(A):$(POD)"),
        EnvVar(name="A", value="1"),
        EnvVar(name="POD", value_from=field),
        EnvVar(name="PRICE", value="$$(A)"),
    ]

    assert [entry["name"] for entry in env.merge(env.entries(given))] == ["A", "PRICE", "POD", "PATHS"]


def test_a_name_appears_once_and_the_last_counts() -> None:
    merged = env.merge(env.constants({"A": "1", "B": "2"}), env.constants({"A": "3"}))

    assert merged == ({"name": "A", "value": "3"}, {"name": "B", "value": "2"})


def test_values_are_filled_in_as_a_container_would_see_them() -> None:
    given = [{"name": "A", "value": "x"}, {"name": "B", "value": "$(A)/$$(A)/$(C)/$$/$A"}]

    assert env.resolve(given)["B"] == "x/$(A)/$(C)/$/$A"


@pytest.mark.parametrize("value", ["level_zero:gpu", "*:*", "Level_Zero:GPU;opencl:gpu"])
def test_a_selector_of_all_devices_may_stand_in_the_file(value: str) -> None:
    made = plan({"type": "xpu"}, env=[{"name": "ONEAPI_DEVICE_SELECTOR", "value": value}])

    assert {"name": "ONEAPI_DEVICE_SELECTOR", "value": value} in made.env

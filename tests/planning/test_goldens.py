"""Each case's job file becomes its golden: the same objects, and the same bytes."""

from __future__ import annotations

import difflib

import pytest
import yaml

from k8sel import api
from k8sel.facts.accelerators import ROWS
from k8sel.facts.launchers import LAUNCHERS, MPIS
from planning import goldens

HINT = "read the difference; if it is right: PYTHONPATH=tests python -m planning.update_goldens"


@pytest.mark.parametrize("case", goldens.NAMES)
def test_a_case_renders_to_its_golden(case: str) -> None:
    expected, actual = goldens.expected_file(case).read_text(), goldens.actual(case)

    difference = difflib.unified_diff(expected.splitlines(), actual.splitlines(), "golden", "now", lineterm="")
    assert actual == expected, "\n".join([HINT, *difference])


@pytest.mark.parametrize("case", goldens.NAMES)
def test_a_golden_reads_as_the_objects_that_were_rendered(case: str) -> None:
    written = list(yaml.safe_load_all(goldens.expected_file(case).read_text()))

    assert written == [goldens.with_stand_ins(item) for item in api.render(goldens.plan(case))]


def test_the_cases_cover_every_row_launcher_and_mpi() -> None:
    plans = [goldens.plan(case) for case in goldens.NAMES]

    assert {plan.devices.type for plan in plans} == {row.name for row in ROWS.values() if row.in_container}
    assert {plan.launcher for plan in plans} == set(LAUNCHERS)
    assert {plan.mpi.implementation for plan in plans if plan.mpi} == set(MPIS)

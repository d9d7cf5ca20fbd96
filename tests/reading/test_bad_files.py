"""Each bad job file of the tables in bad/ gets its whole message.

No command writes the messages: a changed message is changed by hand, and read.
"""

from __future__ import annotations

import pytest

from k8sel.errors import Problem, SpecError
from k8sel.facts.platforms import PLATFORMS
from k8sel.jobfile.defaults import default
from k8sel.jobfile.load import load, locate
from k8sel.jobfile.validate import namespace_policy, validate
from reading.tables import BASE, CASES, Case, changed


def message(case: Case) -> str:
    """All that k8sel says about the file of ``case``, called job.yaml."""
    try:
        return "\n".join(str(problem) for problem in problems(case)) + "\n"
    except SpecError as error:
        return f"{error}\n"


def problems(case: Case) -> list[Problem]:
    """The problems of a file that decodes. Raises SpecError where it does not."""
    found: list[Problem] = []
    for job in load(case.file, "job.yaml"):
        defaulted = default(job.file, PLATFORMS[case.platform])
        level = namespace_policy(defaulted, case.level) if case.level else []
        found += locate(job.document, validate(defaulted, PLATFORMS[case.platform]) + level)
    return found


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_whole_message(case: Case) -> None:
    assert message(case) == case.message


def test_every_table_is_read() -> None:
    assert len(CASES) >= 188


def test_the_base_of_all_cases_is_a_good_file() -> None:
    assert message(Case(says="")) == "\n"


def test_a_change_replaces_a_line_adds_one_and_leaves_the_others() -> None:
    named = BASE.replace("  name: train\n", "  name: train\n  labels: {a: b}\n").replace("torchrun", "python")
    inner = "    count: 2\n  nodes: 2\n"
    change = f"metadata:\n  labels: {{a: b}}\nspec:\n  accelerator:\n{inner}  launcher: python\n"
    assert changed(change) == named + inner


def test_a_change_replaces_a_line_with_all_that_is_below_it() -> None:
    whole = BASE.replace("accelerator:\n    type: cuda\n", "accelerator: {type: cpu}\n")
    assert changed("spec:\n  accelerator: {type: cpu}\n") == whole
    assert changed("", without="image") == BASE.replace("  image: registry.example/train:1\n", "")

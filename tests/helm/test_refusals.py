"""A wrong file is refused by Helm too: in form by the schema, with the field's path; else in k8sel's own words."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from msgspec.structs import replace
from reading.tables import CASES

from cluster import machine
from helm.job_files import drafts
from helm.rendering import RefusedError, Renderer
from k8sel.errors import FieldPath, Kind, Problem, SpecError
from k8sel.jobfile import yamlio
from k8sel.jobfile.defaults import default
from k8sel.jobfile.load import load
from k8sel.jobfile.validate import errors, validate

# What a template cannot say, and what Helm says instead.
OTHERWISE = {
    "backend-of-nobody": "at '/spec/backend': value must be one of",
    "backend-unknown": "at '/spec/backend': value must be one of",
    "command-one-word": "Hint: command: a list of words, as [python, train.py]",  # k8sel splits it as a shell would
    "name-line-break": "at '/metadata/name': 'train\\n' does not match pattern",
    "terminal-codes": "at '/spec/accelerator/type': value must be one of",
    "type-unknown": "at '/spec/accelerator/type': value must be one of",
}
# What a schema cannot say: numbers that are whole to Go's reader, and rules, which come after the form.
UNSAID: dict[str, set[FieldPath]] = {
    "devices-words": {("spec", "accelerator", "devices", 1)},
    "fractions": {("spec", "accelerator", "count"), ("spec", "processesPerNode")},
    "rules-too": {("spec", "accelerator", "devices", 0)},
}
NOT_REQUIRED: set[FieldPath] = {("apiVersion",), ("kind",), ("metadata",), ("metadata", "name")}  # Helm knows them


def documents(*tables: str) -> dict[str, str]:
    """The bad files of ``tables`` that k8sel refuses, each document alone: Helm reads the first one only."""
    return {
        name.partition("/")[2] + (f" {number}" if number else ""): text
        for name, case in CASES.items()
        if name.partition("/")[0] in tables
        for number, text in enumerate(case.file.decode().split("\n---\n"))
        if problems(text)
    }


def problems(text: str) -> list[Problem]:
    """What k8sel refuses of a document."""
    try:
        found = [problem for job in load(text.encode(), "job.yaml") for problem in errors(validate(default(job.file)))]
    except SpecError as error:
        found = list(error.problems)
    return [replace(problem, location=None) for problem in found]


def refusal(renderer: Renderer, text: str) -> str:
    """What Helm says to it."""
    with pytest.raises(RefusedError) as refused:
        renderer.render(text)
    return str(refused.value)


RULES, FIELDS = documents("devices", "launching", "pod"), documents("fields")


@pytest.mark.parametrize("name", RULES)
def test_a_contradiction_is_refused_in_the_same_words(name: str, renderer: Renderer) -> None:
    _, *lines = refusal(renderer, RULES[name]).splitlines()

    if name in OTHERWISE:
        assert OTHERWISE[name] in "\n".join(lines)
    else:
        assert sorted(lines) == sorted({str(problem) for problem in problems(RULES[name])})


@settings(
    max_examples=500 if machine.required() else 100,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(job=drafts())
def test_any_contradiction_is_refused(job: dict[str, Any], renderer: Renderer) -> None:
    text = yamlio.dump([job])
    expected = sorted({_without_hint(str(problem)) for problem in problems(text)})
    try:
        renderer.render(text)
        lines = []
    except RefusedError as refused:
        _, *lines = str(refused).splitlines()

    assert sorted(map(_without_hint, lines)) == expected


def _without_hint(line: str) -> str:
    return line.partition(" Hint: ")[0]


@pytest.mark.parametrize("name", FIELDS)
def test_a_wrong_form_is_refused_with_the_fields_path(name: str, renderer: Renderer) -> None:
    said = refusal(renderer, FIELDS[name])
    unsaid = {problem.path for problem in problems(FIELDS[name]) if not _named(problem, said)}

    assert unsaid - NOT_REQUIRED == UNSAID.get(name, set())


def _named(problem: Problem, said: str) -> bool:
    """Whether Helm's message has the problem's place: the field, or what it is missing from or unknown in."""
    *around, key = problem.path
    if problem.kind in (Kind.UNKNOWN, Kind.REQUIRED):
        return any(f"at '{_pointer(tuple(around))}'" in line and f"'{key}'" in line for line in said.splitlines())
    return f"at '{_pointer(problem.path)}'" in said


def _pointer(path: FieldPath) -> str:
    return "".join(f"/{part}" for part in path)

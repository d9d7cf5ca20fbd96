"""A wrong file is refused by Helm too: in form by the schema, with the field's path; else in k8sel's own words."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from msgspec.structs import replace
from reading.tables import CASES

from cluster import machine
from helm.job_files import drafts
from helm.rendering import RefusedError, Renderer
from k8sel.errors import FieldPath, Problem, SpecError
from k8sel.jobfile import yamlio
from k8sel.jobfile.defaults import default
from k8sel.jobfile.load import load
from k8sel.jobfile.validate import errors, validate

BY_SCHEMA = "values don't meet the specifications of the schema"
# What a schema cannot say: numbers that are whole to Go's reader, and rules, which come after the form.
UNSAID: dict[str, set[FieldPath]] = {
    "devices-words": {("spec", "accelerator", "devices", 1)},
    "fractions": {("spec", "accelerator", "count"), ("spec", "processesPerNode")},
    "rules-too": {("spec", "accelerator", "devices", 0)},
}
# The rules' contradictions in files that are wrong in form too: Helm looks for them when the form is right.
AFTER_THE_FORM: dict[str, set[FieldPath]] = {
    "mounts": {("spec", "volumeMounts", 0, "name"), *(("spec", "volumeMounts", each, "mountPath") for each in (1, 4))},
    "resources": {("spec", "resources", "rdma/hca")},
    "several-kinds": {("spec", "target"), ("spec", "accelerator", "devices", 0), ("spec", "processesPerNode")},
    "ssh-port-low": {("spec", "mpi", "sshPort")},
    "terminal-codes": {("spec", "volumeMounts", 0, "name")},
    "volumes": {("spec", "volumes", 1, "name")},
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
    """Returns the problems for which k8sel refuses a document."""
    try:
        found = [problem for job in load(text.encode(), "job.yaml") for problem in errors(validate(default(job.file)))]
    except SpecError as error:
        found = list(error.problems)
    return [replace(problem, location=None) for problem in found]


def refusal(renderer: Renderer, text: str) -> str:
    """Returns Helm's message about it."""
    with pytest.raises(RefusedError) as refused:
        renderer.render(text)
    return str(refused.value)


RULES, FIELDS = documents("devices", "launching", "pod"), documents("fields")


@pytest.mark.parametrize("name", RULES)
def test_a_contradiction_is_refused_in_the_same_words_and_a_wrong_form_with_the_fields_path(
    name: str, renderer: Renderer
) -> None:
    said, expected = refusal(renderer, RULES[name]), problems(RULES[name])
    _, *lines = said.splitlines()

    if said.startswith(BY_SCHEMA):
        assert {problem.path for problem in expected if not _named(problem, said)} == AFTER_THE_FORM.get(name, set())
        assert _places_of_no_problem(said, expected) == []
    else:
        assert sorted(lines) == sorted({str(problem) for problem in expected})


@settings(
    max_examples=500 if machine.required() else 100,
    phases=[Phase.generate, Phase.shrink],
    suppress_health_check=[HealthCheck.too_slow],
)
@given(job=drafts())
def test_any_contradiction_is_refused(job: dict[str, Any], renderer: Renderer) -> None:
    text = yamlio.dump([job])
    expected = problems(text)
    try:
        renderer.render(text)
        said = ""
    except RefusedError as refused:
        said = str(refused)

    if said.startswith(BY_SCHEMA):
        assert _places_of_no_problem(said, expected) == []
    else:
        assert sorted(map(_without_hint, said.splitlines()[1:])) == sorted(
            {_without_hint(str(each)) for each in expected}
        )


def _without_hint(line: str) -> str:
    return line.partition(" Hint: ")[0]


@pytest.mark.parametrize("name", FIELDS)
def test_a_wrong_form_is_refused_with_the_fields_path(name: str, renderer: Renderer) -> None:
    said = refusal(renderer, FIELDS[name])
    unsaid = {problem.path for problem in problems(FIELDS[name]) if not _named(problem, said)}

    assert unsaid - NOT_REQUIRED == UNSAID.get(name, set())


def _named(problem: Problem, said: str) -> bool:
    """Reports whether Helm's message names the problem's place, or a part of it."""
    return any(_is_in(place, problem) for place in _places(said))


def _places_of_no_problem(said: str, expected: list[Problem]) -> list[str]:
    """Returns the places that the schema refuses and k8sel accepts."""
    return [place for place in _places(said) if not any(_is_in(place, problem) for problem in expected)]


def _is_in(place: str, problem: Problem) -> bool:
    return f"{place}/".startswith(f"{_pointer(problem.path)}/")


def _places(said: str) -> list[str]:
    """The places that Helm's message names, each once and without those around it."""
    lines = [line for line in said.splitlines() if line.lstrip().startswith("- at")]
    inner = [line for line, after in pairwise([*lines, ""]) if _indent(after) <= _indent(line)]
    return [place for line in inner for place in _places_of(line)]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _places_of(line: str) -> list[str]:
    """Those of one line: the field, the key that is unknown or missing, or the item that is there twice."""
    match = re.fullmatch(r" *- at '(.*?)': (.*)", line)
    assert match, line
    place, words = match[1], match[2]
    if words.startswith(("additional propert", "missing propert")):
        return [f"{place}{_pointer((key,))}" for key in re.findall("'(.*?)'", words)]
    twice = re.fullmatch(r"items at \d+ and (\d+) are equal", words)
    return [f"{place}/{twice[1]}" if twice else place]


def _pointer(path: FieldPath) -> str:
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in path)

"""Reads text into JobFiles: parses once, decodes once. Fills in no default; opens no file.

``k8sel.jobfile.explain`` finds every problem of a document that does not decode. It is imported only then, because it
imports jsonschema.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from k8sel.errors import FieldPath, Kind, Location, Problem, SpecError
from k8sel.jobfile.spec import JobFile, decode
from k8sel.jobfile.yamlio import Document, dump, parse

# Fields that go to the pod as they are.
_OF_THE_POD = ("volumes", "volumeMounts", "securityContext", "podSecurityContext", "affinity", "tolerations")
_NO_FILE = ""  # the name of generated text: a user never sees its lines


class Job(Struct, frozen=True, kw_only=True):
    """One job of a file, as the user wrote it."""

    file: JobFile  # without defaults
    document: Document  # has the locations


def load(text: bytes, file: str) -> tuple[Job, ...]:
    """Returns the jobs of ``text``. Raises SpecError with all problems of all documents, in the file's order."""
    jobs: list[Job] = []
    problems: list[Problem] = []
    for document in _documents(text, file):
        try:
            jobs.append(_job(document))
            problems.extend(locate(document, _octals(document, text)))
        except msgspec.ValidationError as error:
            problems.extend(locate(document, _explain(document, error)))
    problems.extend(_same_names(jobs))
    if problems:
        raise SpecError(sorted(problems, key=lambda problem: _order(problem.location)))
    return tuple(jobs)


def load_data(data: Mapping[str, Any]) -> tuple[Job, ...]:
    """Returns the one job of ``data``. Its problems have no location.

    Raises SpecError as ``load`` does, and TypeError or ValueError for a value that JSON does not have.
    """
    import json  # slow to import, and a job file does not need it

    own = json.loads(json.dumps(dict(data), allow_nan=False))
    try:
        return load(dump([own]).encode(), _NO_FILE)
    except SpecError as error:
        raise SpecError(replace(problem, location=None) for problem in error.problems) from None


def _same_names(jobs: list[Job]) -> Iterator[Problem]:
    """Refuses two jobs with the same name and namespace."""
    seen: dict[tuple[str | None, str], int] = {}
    for job in jobs:
        metadata, path = job.file.metadata, ("metadata", "name")
        place = job.document.locate(path)
        first = seen.setdefault((metadata.namespace, metadata.name), place.line)
        if first != place.line:
            message = f"the job on line {first} is also called {metadata.name}"
            yield Problem(kind=Kind.DUPLICATE, path=path, message=message, hint="choose another name", location=place)


def locate(document: Document, problems: Iterable[Problem]) -> list[Problem]:
    """Returns ``problems`` with their locations in ``document``, in its order."""
    placed = (replace(problem, location=_place(document, problem)) for problem in problems)
    found = sorted(placed, key=lambda problem: _order(problem.location))
    return found if document.file != _NO_FILE else [replace(problem, location=None) for problem in found]


def _place(document: Document, problem: Problem) -> Location:
    """Returns the location of the value; that of the key if the key itself is wrong."""
    return problem.location or document.locate(problem.path, key=problem.kind is Kind.UNKNOWN)


def _octals(document: Document, text: bytes) -> list[Problem]:
    """Refuses 010 for a number of k8sel's own: YAML 1.1 reads it as 8. A pod's fields have octal modes of files."""
    if not re.search(rb"[\s\[,:]0[0-9]", text):
        return []
    own = {field: value for field, value in document.data["spec"].items() if field not in _OF_THE_POD}
    found = [(path, number, document.text(path)) for path, number in _numbers(own, ("spec",))]
    return [
        Problem(
            kind=Kind.INVALID,
            path=path,
            message=f"{written} is an octal number, which YAML reads as {number}",
            hint=f"write {number}, or {written.lstrip('0')} for the decimal number",
        )
        for path, number, written in found
        if written and re.fullmatch("0[0-7]+", written)
    ]


def _numbers(value: object, path: FieldPath) -> Iterator[tuple[FieldPath, int]]:
    if isinstance(value, int):
        yield path, value
    elif isinstance(value, dict | list):
        for key, each in value.items() if isinstance(value, dict) else enumerate(value):
            yield from _numbers(each, (*path, key))


def _documents(text: bytes, file: str) -> tuple[Document, ...]:
    """Returns the documents. Raises SpecError; of a script or a template, it says nothing but how to go on."""
    try:
        return parse(text, file)
    except SpecError:
        from k8sel.jobfile import foreign  # for wrong files alone

        other = foreign.text(text)
        if not other:
            raise
        place = Location(file=file, line=1, column=1)
        message, hint = other
        raise SpecError([Problem(kind=Kind.SYNTAX, path=(), message=message, hint=hint, location=place)]) from None


def _job(document: Document) -> Job:
    return Job(file=decode(document.data), document=document)


def _explain(document: Document, error: msgspec.ValidationError) -> list[Problem]:
    from k8sel.jobfile.explain import explain  # jsonschema's import takes longer than a rendering

    return explain(document, error)


def _order(place: Location | None) -> tuple[int, int]:
    return (place.line, place.column) if place else (0, 0)

"""Reads text into JobFiles: parses once, decodes once. Fills in no default; opens no file.

``k8sel.jobfile.explain`` finds every problem of a document that does not decode. It is imported only then, because it
imports jsonschema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from k8sel.errors import Kind, Location, Problem, SpecError
from k8sel.jobfile.spec import JobFile, decode
from k8sel.jobfile.yamlio import Document, dump, parse

_NO_FILE = ""  # the name of generated text: a user never sees its lines


class Job(Struct, frozen=True, kw_only=True):
    """One job of a file, as the user wrote it."""

    file: JobFile  # without defaults
    document: Document  # has the locations


def load(text: bytes, file: str) -> tuple[Job, ...]:
    """Returns the jobs of ``text``. Raises SpecError with all problems of all documents, in the file's order."""
    jobs: list[Job] = []
    problems: list[Problem] = []
    for document in parse(text, file):
        try:
            jobs.append(_job(document))
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


def _job(document: Document) -> Job:
    return Job(file=decode(document.data), document=document)


def _explain(document: Document, error: msgspec.ValidationError) -> list[Problem]:
    from k8sel.jobfile.explain import explain  # jsonschema's import takes longer than a rendering

    return explain(document, error)


def _order(place: Location | None) -> tuple[int, int]:
    return (place.line, place.column) if place else (0, 0)

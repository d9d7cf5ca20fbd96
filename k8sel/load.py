"""Text to JobFiles: parsed once, decoded once. Decides and defaults nothing; opens no file.

When a document does not decode, ``k8sel.explain`` says everything that is wrong with it; it is imported only then,
since it brings jsonschema along.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256

import msgspec

from k8sel.errors import Location, Problem, SpecError
from k8sel.spec import JobFile, decode
from k8sel.yamlio import Document, parse


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """One job of a file, as the user wrote it."""

    file: JobFile  # nothing is defaulted yet
    document: Document  # its places
    sha256: str  # of its data in canonical form: comments and order do not count


def load(text: bytes, file: str) -> tuple[Job, ...]:
    """The jobs of ``text``. Raises SpecError with all problems of all documents, in the file's order."""
    jobs: list[Job] = []
    problems: list[Problem] = []
    for document in parse(text, file):
        try:
            jobs.append(_job(document))
        except msgspec.ValidationError as error:
            problems.extend(_explain(document, error))
    if problems:
        raise SpecError(sorted(problems, key=_position))
    return tuple(jobs)


def _job(document: Document) -> Job:
    canonical = json.dumps(document.data, sort_keys=True, separators=(",", ":"))
    return Job(file=decode(document.data), document=document, sha256=sha256(canonical.encode()).hexdigest())


def _explain(document: Document, error: msgspec.ValidationError) -> list[Problem]:
    from k8sel.explain import explain  # here, since jsonschema takes longer to import than a rendering takes

    return explain(document, error)


def _position(problem: Problem) -> tuple[int, int]:
    place = problem.location or Location(file="", line=0, column=0)
    return place.line, place.column

"""Finds every problem of a document that does not decode, in Kubernetes' terms. Imported only then.

The models stop at their first problem. So the models' schema checks the whole document, and then the rules check the
document without its wrong parts.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec
from jsonschema import Draft202012Validator
from jsonschema.validators import extend

from k8sel.errors import FieldPath, Kind, Problem
from k8sel.facts.accelerators import ROWS
from k8sel.facts.platforms import PLATFORMS
from k8sel.jobfile import foreign
from k8sel.jobfile.defaults import default
from k8sel.jobfile.explain_words import (
    PATTERNS,
    TYPES,
    describe,
    enum_hint,
    field_hint,
    required_hint,
    type_hint,
    type_of,
    unknown_hint,
)
from k8sel.jobfile.rules.devices import type_meant
from k8sel.jobfile.schema import NULLABLE, Schema, schema
from k8sel.jobfile.spec import decode
from k8sel.jobfile.validate import validate
from k8sel.jobfile.yamlio import Document
from k8sel.wording import not_one_of, quote

_TYPE = ("spec", "accelerator", "type")
_VARIABLES = ("spec", "env")
_ITEM = 3  # parts of a variable's path


@dataclass(frozen=True, kw_only=True, slots=True)
class Wrong:
    """One failed keyword of the schema."""

    keyword: str
    limit: Any  # the keyword's value in the schema
    value: Any  # the file's value
    text: str | None  # a scalar as the user wrote it
    part: Schema
    path: FieldPath


def explain(document: Document, error: msgspec.ValidationError) -> list[Problem]:
    """Returns the problems of ``document``, without locations; ``error`` is the first problem that decoding found."""
    other = foreign.document(document.data)
    if other:
        return [other]
    found = {(problem.path, problem.kind): problem for wrong in _wrongs(document) for problem in _problems(wrong)}
    problems = list(found.values()) or [Problem(kind=Kind.INVALID, path=(), message=str(error))]
    return problems + _rules(document.data, problems)


def _wrongs(document: Document) -> Iterator[Wrong]:
    """Yields every keyword that ``document`` fails. Null means "not given" where the models allow it."""
    for error in _validator().iter_errors(document.data):
        part: Any = error.schema
        if error.instance is None and part.get(NULLABLE):
            continue
        path = tuple(error.absolute_path)
        yield Wrong(
            keyword=str(error.validator),
            limit=error.validator_value,
            value=error.instance,
            text=document.text(path),
            part=part,
            path=path,
        )


@lru_cache(maxsize=1)
def _validator() -> Draft202012Validator:
    """Returns a validator that, like the models, does not accept 8.0 as a whole number."""
    types = Draft202012Validator.TYPE_CHECKER.redefine("integer", _is_integer)
    strict = extend(Draft202012Validator, type_checker=types)  # type: ignore[no-untyped-call]
    made: Draft202012Validator = strict(schema(mark_nullable=True))
    return made


def _is_integer(_: object, value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _problems(wrong: Wrong) -> Iterator[Problem]:
    """Yields the problems of the failed keyword ``wrong``."""
    if wrong.keyword == "additionalProperties":
        return _unknown(wrong)
    if wrong.keyword == "required":
        return _required(wrong)
    kind = Kind.NOT_SUPPORTED if wrong.keyword == "enum" else Kind.INVALID
    message, hint = _WORDS[wrong.keyword](wrong)
    return iter([Problem(kind=kind, path=wrong.path, message=message, hint=hint)])


def _unknown(wrong: Wrong) -> Iterator[Problem]:
    allowed = tuple(wrong.part["properties"])
    for key in wrong.value:
        if key not in allowed:
            hint = unknown_hint(key, allowed, _places())
            message = "no such field here"
            yield Problem(kind=Kind.UNKNOWN, path=(*wrong.path, key), message=message, hint=hint)


def _required(wrong: Wrong) -> Iterator[Problem]:
    for key in wrong.limit:
        if key not in wrong.value:
            hint = required_hint(wrong.part["properties"][key])
            yield Problem(kind=Kind.REQUIRED, path=(*wrong.path, key), message="this field is missing", hint=hint)


def _type(wrong: Wrong) -> tuple[str, str]:
    if wrong.path[:2] == _VARIABLES and not isinstance(wrong.value, bool | None):
        return _variable(wrong)
    got = describe(wrong.value, wrong.text)
    if isinstance(wrong.value, str) and _of_mappings(wrong.part):
        return f"expected a list of mappings, got {got}", ""
    hint = field_hint(wrong.path, wrong.value) or type_hint(wrong.limit, wrong.value, wrong.text)
    return f"expected {TYPES[wrong.limit]}, got {got}", hint


def _variable(wrong: Wrong) -> tuple[str, str]:
    """Describes a variable of the wrong form without its value, which may be a secret."""
    whole = isinstance(wrong.value, str) and _of_mappings(wrong.part)
    expected = "a list of mappings" if whole else TYPES[wrong.limit]
    quoted = "write the value in quotes" if isinstance(wrong.value, int | float) and wrong.limit == "string" else ""
    form = "write {name: NAME, value: VALUE}" if len(wrong.path) == _ITEM else quoted
    hint = "write env: [{name: NAME, value: VALUE}], an item for each" if wrong.path == _VARIABLES else form
    return f"expected {expected}, got {type_of(wrong.value)}", hint


def _of_mappings(part: Schema) -> bool:
    """Reports whether ``part`` is a list whose items cannot be text."""
    return part.get("type") == "array" and part["items"].get("type") not in ("string", "integer")


def _any_of(wrong: Wrong) -> tuple[str, str]:
    """Describes a value that is not a quantity: only quantities have several types in a job file."""
    got = describe(wrong.value, wrong.text)
    message = f"expected a quantity (a number, or a string such as 500m or 16Gi), got {got}"
    pod = isinstance(wrong.value, dict) and wrong.path[-1] in ("limits", "requests")
    hint = (
        "write the quantities here, for example resources: {cpu: 8}: each is both a request and a limit" if pod else ""
    )
    return message, hint or type_hint("", wrong.value, wrong.text)


def _enum(wrong: Wrong) -> tuple[str, str]:
    got = quote(wrong.value) if isinstance(wrong.value, str) else describe(wrong.value, wrong.text)
    of_type = wrong.path == _TYPE and isinstance(wrong.value, str)
    hint = type_meant(wrong.value, list(ROWS)) if of_type else enum_hint(wrong.value, wrong.limit)
    return not_one_of(got, wrong.limit), hint


def _bound(wrong: Wrong) -> tuple[str, str]:
    word = "below the minimum" if wrong.keyword == "minimum" else "above the maximum"
    return f"{wrong.value} is {word} {wrong.limit}", ""


def _empty(wrong: Wrong) -> tuple[str, str]:
    return "the value is empty", "leave it out, or give it a value" if wrong.part.get(NULLABLE) else "give it a value"


def _long(wrong: Wrong) -> tuple[str, str]:
    return f"{len(wrong.value)} characters, but at most {wrong.limit} are allowed", ""


def _pattern(wrong: Wrong) -> tuple[str, str]:
    name, equals, _ = wrong.value.partition("=") if wrong.path[:2] == _VARIABLES else (wrong.value, "", "")
    hint = "write the part after = in value" if equals else _in_lower_case(wrong)  # it may be a secret
    return f"{quote(f'{name}=...' if equals else name)} is not allowed: {PATTERNS[wrong.limit]}", hint


def _in_lower_case(wrong: Wrong) -> str:
    """Returns a hint with the name in lower case, if the pattern then allows it."""
    lower = re.sub(r"[^a-z0-9]+", "-", wrong.value.lower()).strip("-")
    return f"write {lower}" if lower and re.search(wrong.limit, lower) and wrong.path[0] == "metadata" else ""


_WORDS: dict[str, Callable[[Wrong], tuple[str, str]]] = {
    "type": _type,
    "anyOf": _any_of,
    "enum": _enum,
    "minimum": _bound,
    "maximum": _bound,
    "minLength": _empty,
    "minItems": _empty,
    "maxLength": _long,
    "pattern": _pattern,
}


@lru_cache(maxsize=1)
def _places() -> dict[str, list[str]]:
    """Returns, for each field's name, the parts of the job file that have this field."""
    homes = {"JobFile": "the top level of the file", "Metadata": "metadata", "Spec": "spec", "EnvVar": "spec.env"}
    places: dict[str, list[str]] = {}
    for name, part in schema()["$defs"].items():
        for key in part["properties"]:
            places.setdefault(key, []).append(homes.get(name, f"spec.{name.lower()}"))
    return places


def _rules(data: dict[str, Any], problems: list[Problem]) -> list[Problem]:
    """Returns the errors that the rules find in ``data`` without its wrong parts; none if the rest does not decode."""
    rest = copy.deepcopy(data)
    for problem in problems:
        _remove(rest, problem.path)
    try:
        job = decode(rest)
    except msgspec.ValidationError:
        return []
    wrong = {problem.path for problem in problems}
    # The platform is not known yet; `run` requires the least.
    found = validate(default(job, PLATFORMS["run"]), PLATFORMS["run"])
    return [problem for problem in found if problem.kind is not Kind.WARNING and problem.path not in wrong]


def _remove(data: Any, path: FieldPath) -> None:  # noqa: ANN401 (plain data of any shape)
    """Removes the mapping entry around ``path``: to remove only an item would renumber the items after it."""
    while path and isinstance(path[-1], int):
        path = path[:-1]
    try:
        for part in path[:-1]:
            data = data[part]
        del data[path[-1]]
    except (KeyError, IndexError, TypeError):  # missing, or already removed with its parent
        return

"""Describes the problems of a YAML text and their locations. Pure; reads nothing."""

from __future__ import annotations

import re

from k8sel.errors import Kind, Location, Problem, SpecError
from k8sel.jobfile.yamlio.pyyaml import yaml
from k8sel.jobfile.yamlio.scalars import Scalar

_LINE_BREAK = "\r\n|[\r\n\x85\u2028\u2029]"  # YAML 1.1's


def place_after(before: str) -> tuple[int, int]:
    """Returns the line and the column directly after ``before``."""
    lines = re.split(_LINE_BREAK, before)
    return len(lines), len(lines[-1]) + 1


def error(file: str, place: tuple[int, int], message: str, hint: str = "") -> SpecError:
    """Returns the error for one problem of the text, at line and column ``place``."""
    location = Location(file=file, line=place[0], column=place[1])
    return SpecError([Problem(kind=Kind.SYNTAX, path=(), message=message, hint=hint, location=location)])


def json_type(data: object) -> str:
    """Returns JSON's name for the type of ``data``."""
    names = {dict: "mapping", list: "list", str: "string", bool: "boolean", int: "number", float: "number"}
    return names.get(type(data), "null")


def json_value(data: Scalar) -> str:
    """Describes a scalar that is not a string."""
    if data is None:
        return "null"
    return str(data).lower() if isinstance(data, bool) else f"the number {data}"


_HINTS = {
    "mapping values are not allowed in this context": 'a text with ": " in it needs quotes, and keys of one mapping '
    "start in the same column",
    "did not find expected key": "start all keys of one mapping in the same column, and close each bracket once",
    "did not find expected '-' indicator": "start all items of one list in the same column",
    "could not find expected ':'": "write a colon and a space after a key",
}


# The parser's context -> what has no end, and its end.
_OPEN = {
    "while scanning a quoted scalar": ("quoted text", "the quotation mark that ends it"),
    "while parsing a flow sequence": ("list", "a ], or a comma between two items"),
    "while parsing a flow mapping": ("mapping", "a }, or a comma between two entries"),
}


def syntax(wrong: yaml.YAMLError, file: str, text: str) -> Problem:
    """Returns the parser's error as a problem, with its location and a hint.

    What has no end is reported where it begins: the parser notices it far below.
    """
    return (_unfinished(wrong, file) or _other(wrong, file, text)).problems[0]


def _unfinished(wrong: yaml.YAMLError, file: str) -> SpecError | None:
    context, noticed = getattr(wrong, "context_mark", None), getattr(wrong, "problem_mark", None)
    name, end = _OPEN.get(str(getattr(wrong, "context", "")), ("", ""))
    problem = str(getattr(wrong, "problem", ""))
    if not name or not context or not noticed or "escape" in problem:
        return None
    place = f"line {noticed.line + 1}, column {noticed.column + 1}"
    message = f"the {name} that begins here does not end, as {place} shows"
    return error(file, (context.line + 1, context.column + 1), message, f"write {end}")


def _other(wrong: yaml.YAMLError, file: str, text: str) -> SpecError:
    mark = getattr(wrong, "problem_mark", None) or getattr(wrong, "context_mark", None)
    place = (mark.line + 1, mark.column + 1) if mark else (1, 1)
    message = str(getattr(wrong, "problem", None) or wrong).splitlines()[0]
    hint = _HINTS.get(message, "")
    if "cannot start any token" in message:
        message, hint = _bad_start(text, place)
    elif (context := getattr(wrong, "context", None)) and not hint:
        message = f"{message} {context}"
    return error(file, place, message, hint)


def _bad_start(text: str, place: tuple[int, int]) -> tuple[str, str]:
    lines = re.split(_LINE_BREAK, text)
    character = (lines[place[0] - 1] if place[0] <= len(lines) else "")[place[1] - 1 : place[1]]
    if character == "\t":
        return "a tab cannot indent YAML", "use spaces"
    return f"nothing can start with the character {character}", "put the text in quotes"

"""The text of values and problems, for all rooms: quoting, nearest words, and constructors of problems."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from k8sel.entrypoint.report import plain
from k8sel.errors import FieldPath, Kind, Problem


def invalid(path: FieldPath, message: str, hint: str = "") -> Problem:
    """A problem: the value does not fit."""
    return Problem(kind=Kind.INVALID, path=path, message=message, hint=hint)


def forbidden(path: FieldPath, message: str, hint: str = "") -> Problem:
    """A problem: the field is not allowed here."""
    return Problem(kind=Kind.FORBIDDEN, path=path, message=message, hint=hint)


def required(path: FieldPath, message: str, hint: str = "") -> Problem:
    """A problem: the field is missing."""
    return Problem(kind=Kind.REQUIRED, path=path, message=message, hint=hint)


def duplicate(path: FieldPath, message: str, hint: str = "") -> Problem:
    """A problem: the value exists twice."""
    return Problem(kind=Kind.DUPLICATE, path=path, message=message, hint=hint)


def warning(path: FieldPath, message: str, hint: str = "") -> Problem:
    """A problem: the job works, but probably not as intended."""
    return Problem(kind=Kind.WARNING, path=path, message=message, hint=hint)


def not_supported(path: FieldPath, value: str, allowed: Iterable[str], hint: str = "") -> Problem:
    """A problem: ``value`` is not one of ``allowed``."""
    return Problem(kind=Kind.NOT_SUPPORTED, path=path, message=not_one_of(quote(value), tuple(allowed)), hint=hint)


def not_one_of(found: str, allowed: Sequence[str]) -> str:
    """The message about a value that is not one of ``allowed``."""
    return f"{found} is not one of {', '.join(allowed)}" if len(allowed) > 1 else f"expected {allowed[0]}, got {found}"


def quote(text: str) -> str:
    """``text`` in quotes, short enough for one line, without control characters."""
    import json  # slow to import, and a valid job never needs it

    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return json.dumps(shown, ensure_ascii=not shown.isprintable())


def bare(text: str) -> str:
    """``text`` without quotes if it is a short plain word; else with quotes."""
    return text if text.isprintable() and 0 < len(text) <= 60 else quote(text)


def one_line(text: str) -> str:
    """``text`` on one line, with escapes in place of line ends and control characters."""
    return text if text.isprintable() else plain(text).replace("\n", "\\n").replace("\t", "\\t")


def numbers(values: Iterable[int]) -> str:
    """Numbers as a YAML list: ``[2, 0]``."""
    return f"[{', '.join(map(str, values))}]"


def as_list(command: str) -> str:
    """A command line as a YAML list."""
    return f"[{', '.join(words(command))}]"


def words(command: str) -> Iterable[str]:
    """A command line, or numbers, as items of a YAML list."""
    import json  # slow to import, and a valid job never needs them
    import shlex

    if re.fullmatch(r"[0-9]+([\s,]+[0-9]+)*", command):
        return re.findall("[0-9]+", command)
    try:
        found = shlex.split(command)
    except ValueError:
        found = command.split()
    return (word if re.fullmatch(r"[A-Za-z][A-Za-z./]+", word) else json.dumps(word) for word in found)


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """A hint with the nearest of ``allowed``; empty if none is near."""
    near = nearest(word, allowed)
    return f"did you mean {near}?" if near else ""


def nearest(word: str, allowed: Iterable[str]) -> str | None:
    """The one of ``allowed`` that is nearest to ``word``; None if none is near."""
    from difflib import get_close_matches  # slow to import, and a valid job never needs it

    by_lower = {name.lower(): name for name in allowed}
    close = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[close[0]] if close else None

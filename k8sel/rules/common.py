"""What all rules are made of. A rule takes a defaulted job and the door it goes through, and yields problems."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from k8sel.errors import FieldPath, Kind, Problem
from k8sel.spec import JobFile

Rule = Callable[[JobFile, str], Iterator[Problem]]

# For re.fullmatch, which compiles a pattern when it is first used and keeps it: a job uses few of them.
LABEL_VALUE = r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?"
LABEL_NAME = r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
SUBDOMAIN_LENGTH = "(?=.{1,253}$)"
SUBDOMAIN = rf"{SUBDOMAIN_LENGTH}[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*"
LABEL_RULE = (
    "a label value has at most 63 letters, digits, '-', '_' and '.', and starts and ends with a letter or digit"
)
SUBDOMAIN_RULE = "only lower-case letters, digits, '-' and '.' are allowed, and a letter or digit first and last"


def invalid(path: FieldPath, message: str, hint: str = "") -> Problem:
    """A value that does not fit."""
    return Problem(kind=Kind.INVALID, path=path, message=message, hint=hint)


def forbidden(path: FieldPath, message: str, hint: str = "") -> Problem:
    """Something that may not be said here."""
    return Problem(kind=Kind.FORBIDDEN, path=path, message=message, hint=hint)


def required(path: FieldPath, message: str, hint: str = "") -> Problem:
    """Something that has to be said here."""
    return Problem(kind=Kind.REQUIRED, path=path, message=message, hint=hint)


def duplicate(path: FieldPath, message: str, hint: str = "") -> Problem:
    """Something that is said twice."""
    return Problem(kind=Kind.DUPLICATE, path=path, message=message, hint=hint)


def warning(path: FieldPath, message: str, hint: str = "") -> Problem:
    """Something that works, and probably not as meant."""
    return Problem(kind=Kind.WARNING, path=path, message=message, hint=hint)


def not_supported(path: FieldPath, value: str, allowed: Iterable[str], hint: str = "") -> Problem:
    """A word that is not one of ``allowed``."""
    names = tuple(allowed)
    message = f"{quote(value)} is not {'one of ' if len(names) > 1 else ''}{', '.join(names)}"
    return Problem(kind=Kind.NOT_SUPPORTED, path=path, message=message, hint=hint)


def quote(text: str) -> str:
    """``text`` in quotes, short enough for one line, and with nothing in it that a terminal would obey."""
    import json  # which a valid job never needs

    shown = text if len(text) <= 60 else f"{text[:57]}..."
    return json.dumps(shown, ensure_ascii=not shown.isprintable())


def bare(text: str) -> str:
    """``text`` without quotes, where it is a short plain word."""
    return text if text.isprintable() and 0 < len(text) <= 60 else quote(text)


def did_you_mean(word: str, allowed: Iterable[str]) -> str:
    """The nearest of ``allowed`` as a hint."""
    from k8sel.explain_words import nearest  # difflib, which a valid job never needs

    near = nearest(word, allowed)
    return f"did you mean {near}?" if near else ""


def as_list(command: str) -> str:
    """A command line as a list for the file."""
    from k8sel.explain_words import words  # as above

    return f"[{', '.join(words(command))}]"


def numbers(values: Iterable[int]) -> str:
    """As in a file: ``[2, 0]``."""
    return f"[{', '.join(map(str, values))}]"

"""Orders a container's variables: a variable can refer only to earlier ones."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET

from k8sel.errors import SpecError
from k8sel.jobfile.spec import EnvVar
from k8sel.wording import bare, invalid

Entry = Mapping[str, Any]
_REFERENCE = r"\$\([-._a-zA-Z][-._a-zA-Z0-9]*\)"
_REFERRING = 2  # after constants and entries with a valueFrom
_POD_FIELDS = frozenset(("fieldRef", "resourceFieldRef"))
_EXPANDED = r"\$\$|\$\(([^)]*)\)"
# Linux starts no program with more: values that refer to values can double in each line.
LONGEST = 131071  # characters in one word or variable: MAX_ARG_STRLEN, include/uapi/linux/binfmts.h
MOST = 2_000_000  # characters in all: a quarter of the stack's usual limit, fs/exec.c
SHORTEN = "shorten it, or let the program read it from a file"


class TooLong(ValueError):
    """Values that no program can get; the text is the message."""


class Reference(str):
    """A reference, ``$(NAME)``, that Kubernetes expands; any other text is literal."""

    __slots__ = ()


def reference(name: str) -> Reference:
    """Returns the value of the container's variable ``name``, as part of a command."""
    return Reference(f"$({name})")


def literal(text: str) -> str:
    """Returns ``text`` escaped so that Kubernetes does not expand it; a Reference stays as it is."""
    return str(text) if isinstance(text, Reference) else text.replace("$", "$$")


def constants(values: Mapping[str, str]) -> tuple[Entry, ...]:
    """Returns ``values`` as entries with literal values."""
    return tuple({"name": name, "value": literal(value)} for name, value in values.items())


def entries(variables: Iterable[EnvVar]) -> tuple[Entry, ...]:
    """Returns the job file's variables as Kubernetes' entries; a ``$(NAME)`` in a value keeps its meaning."""
    return tuple(_entry(variable) for variable in variables)


def resolve(variables: Iterable[Entry]) -> dict[str, str]:
    """Returns the values that a container gets from entries with a value: expands ``$(NAME)``, and ``$$`` to ``$``.

    Raises SpecError where no program could get them.
    """
    values: dict[str, str] = {}
    length = 0
    try:
        for entry in variables:
            values[entry["name"]] = filled(entry["value"], values, f"the variable {bare(entry['name'])}")
            length = added(length, values[entry["name"]], entry["name"])
    except TooLong as error:
        raise SpecError([invalid(("spec", "env"), str(error), SHORTEN)]) from None
    return values


def filled(text: str, values: Mapping[str, str], what: str = "a word of the command") -> str:
    """Returns ``text`` as a container gets it: expands each known ``$(NAME)``, and ``$$`` to ``$``.

    Raises TooLong, which names ``what``, before it makes a text that no program can get.
    """
    closed, rest = _closed(text)
    if len(text) + sum(len(values.get(name, "")) for name in references(text)) > LONGEST:
        raise TooLong(f"{what} has more than {LONGEST} characters after its references are filled in")
    whole = re.sub(_EXPANDED, lambda match: "$" if match[0] == "$$" else values.get(match[1], match[0]), closed)
    return whole + rest.replace("$$", "$")


def references(text: str) -> list[str]:
    """Returns the name of each ``$(NAME)`` in ``text``."""
    return [match[1] for match in re.finditer(_EXPANDED, _closed(text)[0]) if match[1] is not None]


def _closed(text: str) -> tuple[str, str]:
    """Splits ``text`` behind its last bracket: behind it, each ``$(`` would be searched to the end, in vain."""
    end = text.rfind(")") + 1
    return text[:end], text[end:]


def added(length: int, text: str, name: str) -> int:
    """Returns the ``length`` of all values with ``text``. Raises TooLong for more than a program can get."""
    if length + len(text) > MOST:
        raise TooLong(f"together the values up to {bare(name)} have more than {MOST} characters")
    return length + len(text)


def merge(*parts: Iterable[Entry]) -> tuple[Entry, ...]:
    """Returns each name once, with its last entry.

    Constants come first, then entries with a ``valueFrom``, then entries that refer to other variables.
    """
    last = {entry["name"]: entry for part in parts for entry in part}
    return tuple(sorted(last.values(), key=_rank))


def of_its_pod(variable: EnvVar) -> bool:
    """Reports whether pods may have different values: those of a field of the pod, or of a reference to variables."""
    entry = _entry(variable)
    return _rank(entry) == _REFERRING or not _POD_FIELDS.isdisjoint(entry.get("valueFrom", ()))


def _entry(variable: EnvVar) -> Entry:
    if variable.value_from is not UNSET:
        return {"name": variable.name, "valueFrom": variable.value_from}
    return {"name": variable.name, "value": "" if variable.value is UNSET else variable.value}


def _rank(entry: Entry) -> int:
    if "valueFrom" in entry:
        return 1
    return _REFERRING if re.search(_REFERENCE, entry["value"].replace("$$", "")) else 0

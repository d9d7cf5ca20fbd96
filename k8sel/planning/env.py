"""Order among a container's variables: one may name only those before it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET

from k8sel.jobfile.spec import EnvVar

Entry = Mapping[str, Any]
_REFERENCE = r"\$\([-._a-zA-Z][-._a-zA-Z0-9]*\)"
_REFERRING = 2  # behind constants, and what is read elsewhere
_POD_FIELDS = frozenset(("fieldRef", "resourceFieldRef"))
_EXPANDED = r"\$\$|\$\(([^)]*)\)"


class Reference(str):
    """A text that Kubernetes fills in, ``$(NAME)``; every other text is meant literally."""

    __slots__ = ()


def reference(name: str) -> Reference:
    """The value of the variable ``name`` in the container, as part of a command."""
    return Reference(f"$({name})")


def literal(text: str) -> str:
    """``text`` such that Kubernetes leaves it as it is; a Reference stays one."""
    return str(text) if isinstance(text, Reference) else text.replace("$", "$$")


def constants(values: Mapping[str, str]) -> tuple[Entry, ...]:
    """``values`` as entries, literally."""
    return tuple({"name": name, "value": literal(value)} for name, value in values.items())


def entries(variables: Iterable[EnvVar]) -> tuple[Entry, ...]:
    """The job file's variables as Kubernetes' own; ``$(NAME)`` in a value keeps its meaning there."""
    return tuple(_entry(variable) for variable in variables)


def resolve(variables: Iterable[Entry]) -> dict[str, str]:
    """The values that a container would see, of entries that have one: ``$(NAME)`` filled in, ``$$`` is ``$``."""
    values: dict[str, str] = {}
    for entry in variables:
        values[entry["name"]] = filled(entry["value"], values)
    return values


def filled(text: str, values: Mapping[str, str]) -> str:
    """``text`` as a container would see it: ``$(NAME)`` filled in where it is known, ``$$`` is ``$``."""
    return re.sub(_EXPANDED, lambda match: _expanded(match, values), text)


def merge(*parts: Iterable[Entry]) -> tuple[Entry, ...]:
    """Each name once, the last entry counts: constants, then what is read elsewhere, then what refers to these."""
    last = {entry["name"]: entry for part in parts for entry in part}
    return tuple(sorted(last.values(), key=_rank))


def of_its_pod(variable: EnvVar) -> bool:
    """Whether each pod may have a value of its own: a field of the pod, or what refers to other variables."""
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


def _expanded(match: re.Match[str], values: Mapping[str, str]) -> str:
    return "$" if match[0] == "$$" else values.get(match[1], match[0])

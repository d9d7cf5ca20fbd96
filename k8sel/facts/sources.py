"""Where each fact of the tables was read, in which version, and on which day.

A source has one of four forms: `OWNER/REPO@VERSION path, words (2026-11-22)`, `OWNER/REPO#NUMBER words (2026-11-22)`
for a discussion, `host/path@VERSION words (2026-11-22)` for a page, `no source: words (2026-11-22)`. A page may lack
a version. `; ` joins several sources. Sources are for people: only the code that shows them imports this module.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import date
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec

from k8sel.facts.accelerators import ROWS
from k8sel.facts.backends import BACKENDS
from k8sel.facts.kinds import JOB_KINDS
from k8sel.facts.launchers import LAUNCHERS, MPIS, PROGRAMS

CONFLICTS = Path(__file__).parent / "conflicts.json"
TABLES: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "accelerators": ROWS,
        "backends": BACKENDS,
        "launchers": LAUNCHERS,
        "programs": PROGRAMS,
        "mpi": MPIS,
        "kinds": JOB_KINDS,
    }
)
_VERSION = r"@(?:(?=\S*[^0-9a-f\s])\S+|[0-9a-f]{8,12})"  # a tag, or the beginning of a commit
_REPOSITORY = rf"[\w-]+/[\w.-]+(?:#[0-9]+|{_VERSION})"
_PAGE = r"[\w-]+(?:\.[\w-]+)+/\S*"
_FORM = re.compile(rf"(?P<source>(?:{_REPOSITORY}|{_PAGE}|no source:)(?: .+)?) \((?P<day>\d{{4}}-\d\d-\d\d)\)")


class Source(NamedTuple):
    """One source of a fact."""

    text: str  # place, version and words
    day: date | None  # the day on which it was read; None: the text has another form


class Fact(NamedTuple):
    """One field of a table's row, with the sources of its value."""

    row: str
    field: str
    value: Any
    sources: tuple[Source, ...]


def parse(text: str) -> tuple[Source, ...]:
    """Returns the sources in ``text``. Raises ValueError for a day that no calendar has."""
    return tuple(map(_parsed, text.split("; ")))


def _parsed(text: str) -> Source:
    found = _FORM.fullmatch(text)
    return Source(found["source"], date.fromisoformat(found["day"])) if found else Source(text, None)


def values(row: msgspec.Struct) -> dict[str, Any]:
    """Returns the fields of a row as plain data."""
    made: dict[str, Any] = msgspec.to_builtins(row, enc_hook=dict, order="deterministic")
    return made


def of_row(name: str, row: Any) -> Iterator[Fact]:  # noqa: ANN401  # a row of any table
    """Yields the facts of one row that have a source."""
    fields = values(row)
    for field, text in row.source.items():
        yield Fact(name, field, fields[field], parse(text))


def facts() -> dict[str, list[Fact]]:
    """Returns the facts of each table that have a source."""
    found = {
        table: [fact for name, row in rows.items() for fact in of_row(name, row)] for table, rows in TABLES.items()
    }
    rows = [row for row in msgspec.json.decode(CONFLICTS.read_bytes()) if "source" in row]
    found["conflicts"] = [Fact(row["path"], row["kind"], row["why"], parse(row["source"])) for row in rows]
    return found

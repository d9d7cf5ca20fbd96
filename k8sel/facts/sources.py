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
from typing import Any, NamedTuple

import msgspec

from k8sel.facts.kinds import JOB_KINDS
from k8sel.facts.launchers import PROGRAMS

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


def tables() -> dict[str, dict[str, dict[str, Any]]]:
    """Returns the rows of each table whose fields have sources. A list of rows is not such a table."""
    read = {path.stem: msgspec.json.decode(path.read_bytes()) for path in sorted(Path(__file__).parent.glob("*.json"))}
    found = {
        name: rows for name, rows in read.items() if isinstance(rows, dict) and "source" in next(iter(rows.values()))
    }
    in_code: Mapping[str, Mapping[str, msgspec.Struct]] = {"programs": PROGRAMS, "kinds": JOB_KINDS}
    return {**found, **{name: {key: values(row) for key, row in rows.items()} for name, rows in in_code.items()}}


def of_row(name: str, fields: Mapping[str, Any]) -> Iterator[Fact]:
    """Yields the facts of one row that have a source."""
    for field, text in fields["source"].items():
        yield Fact(name, field, fields[field], parse(text))


def facts() -> dict[str, list[Fact]]:
    """Returns the facts of each table that have a source."""
    found = {table: [fact for row in rows.items() for fact in of_row(*row)] for table, rows in tables().items()}
    rows = msgspec.json.decode(Path(__file__).with_name("conflicts.json").read_bytes())
    sourced = [row for row in rows if "source" in row]
    found["conflicts"] = [Fact(row["path"], row["kind"], row["why"], parse(row["source"])) for row in sourced]
    return found

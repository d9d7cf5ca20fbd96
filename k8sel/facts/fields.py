"""The table of an object's fields and the job file's fields, typed. The facts are in the data file.

Each place (``pod``, ``container``, ``runPolicy``, ...) has a row for each field that k8sel writes or reads there;
``expectation`` is the JSON in the entrypoint's variable.
The order of the rows is the order in which the fields are written.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

import msgspec

TABLE = Path(__file__).parent / "fields.json"


class Field(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One field of an object; its name is the row's key, with a point before each part of a part."""

    job: str = ""  # path in the job file; "": k8sel, an operator or the cluster writes the field
    rendered: Literal["copied", "made"] = "made"  # copied: as the job file has it; made: by code of its own, or never
    adopted: Literal["copied", "read", "unneeded", "reported"] = "reported"  # what `k8sel from` does with it
    whole: bool = False  # the job file's field has another form: a path below this one leads to all of it
    object: bool = False  # only the job's own object has the field: no pod is made of it
    docker: Literal["supported", "ignored", "unneeded"] | None = None  # what `k8sel docker` does; ignored: and warns

    @property
    def path(self) -> tuple[str, ...]:
        """The job file's field as a path; empty where there is none."""
        return tuple(self.job.split(".")) if self.job else ()


FIELDS: Mapping[str, Mapping[str, Field]] = MappingProxyType(
    msgspec.json.decode(TABLE.read_bytes(), type=dict[str, dict[str, Field]])
)
_POSITIONS = {place: {name: index for index, name in enumerate(rows)} for place, rows in FIELDS.items()}


def copied(place: str) -> dict[str, str]:
    """Fields of ``place`` that are written as the job file has them, each with its path there."""
    return {name: row.job for name, row in FIELDS[place].items() if row.rendered == "copied"}


def of_object(run_policy: frozenset[str]) -> list[tuple[str, ...]]:
    """The job file's fields that no pod is made of; ``run_policy``: what the job's operator reads again and again."""
    rows = {**FIELDS["metadata"], **{name: FIELDS["runPolicy"][name] for name in sorted(run_policy)}}
    return [row.path for row in rows.values() if row.object]


def in_order(place: str, made: Mapping[str, Any]) -> dict[str, Any]:
    """``made`` in the table's order; a field that the table lacks is an error."""
    positions = _POSITIONS[place]
    return dict(sorted(made.items(), key=lambda item: positions[item[0]]))

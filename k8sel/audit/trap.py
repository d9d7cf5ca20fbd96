"""The row of a trap, and the finding of one. Knows no trap."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import Struct

from k8sel.adopt.manifest.reader import Manifest
from k8sel.errors import FieldPath, Location

Found = tuple[FieldPath, str]  # the path, and the fact found there
Find = Callable[[Manifest], Iterator[Found]]


class Trap(Struct, frozen=True, kw_only=True):
    """A setting that a manifest can have, and that does not do what it looks like."""

    id: str
    looks_at: str
    consequence: str
    fix: str
    source: str
    find: Find


def trap(**words: str) -> Callable[[Find], Trap]:
    """Makes a function the ``find`` of a trap, which ``words`` describe."""
    return lambda find: Trap(find=find, **words)


class Finding(Struct, frozen=True, kw_only=True):
    """A trap found in a file."""

    trap: Trap
    object: str  # kind/name
    field: FieldPath
    location: Location
    found: str

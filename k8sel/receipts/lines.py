"""Finds receipts in the lines of logs: at a line's start, behind the prefixes that readers of logs write. Pure.

A program can print the receipts' mark anywhere in its lines. It cannot print before the prefix of its own line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

from k8sel.entrypoint.report import RECEIPT

Fields = Mapping[str, Any]  # a receipt as its start wrote it

_NAME = r"[a-z0-9](?:[-a-z0-9.]*[a-z0-9])?"
_TIME = r"(?:\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d) )?"
_COLOURS = r"(?:\x1b\[[\d;]*m[-\w./ ]*\x1b\[0m ?){0,2}"  # stern's pod and container
# `k8sel logs`, `k8sel docker` and docker compose; kubectl logs --prefix.
_SPEAKER = rf"(?:(?P<node>{_NAME}) +\| |\[pod/(?P<pod>{_NAME})/{_NAME}\] )?"
# Open MPI's [1,0]<stderr>:, hydra's [0], torchrun's [default0]:
_TAG = r"(?:\[[\w.@-]+(?:,\d+)?\](?:<std(?:out|err)>)?:? ?)?"
_PREFIX = re.compile(_TIME + _COLOURS + _SPEAKER + _TIME, re.ASCII)
_START = re.compile(_TIME + _TAG + RECEIPT, re.ASCII)
_MOST = 64  # receipts in one line, whose errors each cost time by its length
_DEPTH = 8  # of a value: a receipt has five levels, and a deeper one would end in an error of Python's


class Line(Struct, frozen=True, kw_only=True):
    """A line of a log without its prefix, and the pod or container that wrote it."""

    text: str
    speaker: str | None = None  # None: the receipt names its node
    run: str = ""  # the run of the speaker's container, where the reader knows it


def prefixed(text: str) -> Line:
    """Splits a line of a log into its prefix and its text."""
    found = _PREFIX.match(text)
    if found is None:  # every part is optional
        return Line(text=text)
    speaker = found["node"] or found["pod"]
    return Line(text=text[found.end() :], speaker=speaker, run=speaker or "")


def receipts(text: str) -> Iterator[Fields | None]:
    """Yields the receipts of one line; None for one that cannot be read. Output of two processes may share a line."""
    start = _START.match(text)
    place = start.end() if start else -1
    for _ in range(_MOST):
        if place < 0:
            return
        try:
            found, end = _DECODER.raw_decode(text, place)
        except (ValueError, RecursionError):
            yield None
            place = _behind_mark(text, text.find(RECEIPT, place))
        else:
            yield checked(found)
            place = _behind_mark(text, end if text.startswith(RECEIPT, end) else -1)


def _behind_mark(text: str, place: int) -> int:
    return place if place < 0 else place + len(RECEIPT)


def _refuse(constant: str) -> None:
    """Refuses NaN and infinities, which Python's decoder reads and JSON does not have."""
    raise ValueError(constant)


_DECODER = json.JSONDecoder(parse_constant=_refuse)


def checked(found: object) -> Fields | None:
    """Returns a receipt with the fields that the rest needs, a node and numbered ranks; else None."""
    if not isinstance(found, dict) or not isinstance(found.get("node"), str) or not _is_flat(found, _DEPTH):
        return None
    ranks = found.get("ranks")
    if not isinstance(ranks, list) or not ranks or not all(map(_is_rank, ranks)):
        return None
    return found


def _is_flat(value: object, depth: int) -> bool:
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return depth > 0 and all(_is_flat(part, depth - 1) for part in parts)


def _is_rank(found: object) -> bool:
    if not isinstance(found, dict) or type(found.get("localRank")) is not int:
        return False
    devices = found.get("devices", [])
    return isinstance(devices, list) and all(isinstance(device, dict) for device in devices)

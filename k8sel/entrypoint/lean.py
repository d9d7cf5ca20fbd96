"""JSON and signals from the C parts of Python's own modules, without the imports of their Python parts.

``json`` and ``signal`` import re, enum, functools and collections, which takes a third of the start. The entrypoint
reads and writes one small object only. Without the C parts, and for error messages, the full modules are used.
"""

from __future__ import annotations

from k8sel.entrypoint.record import TYPE_CHECKING

__all__ = ["dumps", "loads", "signal"]

if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    try:
        import _signal as signal  # the same functions as Lib/signal.py, without its enums
    except ImportError:
        import signal


def loads(text: str) -> Any:
    """Does the same as ``json.loads``."""
    try:
        import _json

        context: Any = _Context
        value, end = _json.make_scanner(context)(text, 0)
    except Exception:
        end = -1
    if end == len(text):
        return value
    import json

    return json.loads(text)


class _Context:
    """The settings that json.decoder.JSONDecoder gives its scanner (Modules/_json.c, scanner_new)."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = None  # not callable, so that json itself reads NaN and Infinity


def dumps(value: Any) -> str:
    """Does the same as ``json.dumps`` with sorted keys and no spaces, for the types that k8sel writes."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(key)}:{dumps(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, float):  # never written, but shown in a message when it was read
        return repr(value)
    return "[" + ",".join(map(dumps, value)) + "]"


def _quoted(text: str) -> str:
    try:
        from _json import encode_basestring_ascii as quote
    except ImportError:
        from json.encoder import encode_basestring_ascii as quote
    return quote(text)

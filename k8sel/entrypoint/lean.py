"""JSON and signals by the C parts of Python's own modules, without what their Python parts import.

``json`` and ``signal`` bring in re, enum, functools and collections: a third of the whole start, for one small object
read and one written. Where a Python does not have these parts, and for every error message, the modules themselves.
"""

from __future__ import annotations

from k8sel.entrypoint.record import TYPE_CHECKING

__all__ = ["dumps", "loads", "signal"]

if TYPE_CHECKING:
    import signal
    from typing import Any
else:
    try:
        import _signal as signal  # Lib/signal.py: the same functions; only the enums are not there
    except ImportError:
        import signal


def loads(text: str) -> Any:
    """As ``json.loads``."""
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
    parse_constant = None  # not callable: NaN and its like are left to json


def dumps(value: Any) -> str:
    """As ``json.dumps`` with sorted keys and without spaces; for the kinds of values that we write."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int):
        return str(value)
    if isinstance(value, str):
        return _quoted(value)
    if isinstance(value, dict):
        return "{" + ",".join(f"{_quoted(key)}:{dumps(value[key])}" for key in sorted(value)) + "}"
    if isinstance(value, float):  # never written, but shown when it was read
        return repr(value)
    return "[" + ",".join(map(dumps, value)) + "]"


def _quoted(text: str) -> str:
    try:
        from _json import encode_basestring_ascii as quote
    except ImportError:
        from json.encoder import encode_basestring_ascii as quote
    return quote(text)

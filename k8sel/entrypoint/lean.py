"""Small replacements for dataclasses, json, signal and typing, whose imports would double the time of a start.

``record`` replaces dataclasses: with ``typing.NamedTuple``, each class would cost half as much as the import. JSON and
signals come from the C parts of Python's own modules; their Python parts import re, enum, functools and collections.
Without the C parts, and for error messages, the full modules are used.
"""

from __future__ import annotations

__all__ = ["TYPE_CHECKING", "dumps", "loads", "record", "replace", "sha256", "signal"]

TYPE_CHECKING = False  # type checkers take it for true; this avoids the import of typing
if TYPE_CHECKING:
    import signal
    from dataclasses import dataclass as record
    from dataclasses import replace
    from hashlib import sha256
    from typing import Any
else:
    try:
        import _signal as signal  # the same functions as Lib/signal.py, without its enums
    except ImportError:
        import signal

    def sha256():  # noqa: ANN201
        """Does the same as ``hashlib.sha256``, by the modules of Python itself: hashlib would load OpenSSL."""
        try:
            from _sha2 import sha256 as made
        except ImportError:
            try:
                from _sha256 import sha256 as made  # until Python 3.11
            except ImportError:
                from hashlib import sha256 as made
        return made()

    def record(*, frozen):  # noqa: ANN001, ANN201
        """Does the same as ``dataclass(frozen=True)``: __init__, equality, repr, and no change afterwards."""
        return _made if frozen else None

    def replace(value, **changes):  # noqa: ANN001, ANN003, ANN201
        """Returns a copy of ``value`` with ``changes``."""
        return type(value)(**{**value.__dict__, **changes})

    def _made(kind):  # noqa: ANN001, ANN202
        names = tuple(kind.__annotations__)
        default = {name: kind.__dict__[name] for name in names if name in kind.__dict__}

        def __init__(self, *values, **named):  # noqa: ANN001, ANN002, ANN003, ANN202
            fields = {**default, **dict(zip(names, values)), **named}  # noqa: B905  (strict= is Python 3.10's)
            if len(values) > len(names) or len(fields) != len(names) or not set(names).issuperset(fields):
                raise TypeError(f"{kind.__name__} has the fields {', '.join(names)}")
            self.__dict__.update(fields)

        kind.__init__ = __init__
        kind.__eq__ = lambda self, other: type(other) is kind and self.__dict__ == other.__dict__
        kind.__hash__ = lambda self: hash(tuple(self.__dict__[name] for name in names))
        kind.__repr__ = _shown
        kind.__setattr__ = kind.__delattr__ = _refuse
        return kind

    def _shown(self):  # noqa: ANN001, ANN202
        fields = ", ".join(f"{name}={value!r}" for name, value in self.__dict__.items())
        return f"{type(self).__name__}({fields})"

    def _refuse(self, name, *value):  # noqa: ANN001, ANN002, ANN202
        raise AttributeError(f"{type(self).__name__}.{name} is frozen")


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

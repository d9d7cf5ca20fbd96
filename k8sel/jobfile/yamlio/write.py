"""Writes plain data as text that every YAML reader reads alike. The same data gives the same bytes. Reads nothing.

PyYAML's dumper is many times slower. It also leaves strings such as ``1e-3``, ``08`` and ``y`` unquoted, which
Kubernetes reads as numbers and booleans.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

# A word that every YAML version reads as a string, unless it is a keyword.
_PLAIN = re.compile(r"[A-Za-z/][A-Za-z0-9_./-]*")
_KEYWORDS = frozenset(("y", "yes", "true", "on", "n", "no", "false", "off", "null"))
# JSON escapes characters below the space. These others are line breaks, invisible, or refused by some reader.
_ESCAPED = "[\x7f-\xa0\xad\u2028\u2029\ufeff\ufffe\uffff]"
_LONG_KEY = 500  # YAML 1.1 readers accept a key of up to 1024 characters unless "?" marks it


def dump(objects: Iterable[Mapping[str, Any]]) -> str:
    """Returns ``objects`` as YAML documents, in their own key order."""
    return "---\n".join("\n".join(_lines(item)) + "\n" for item in objects)


def dump_json(objects: Iterable[Mapping[str, Any]]) -> str:
    """Returns ``objects`` as JSON: one as it is, several as a List, like kubectl."""
    import json  # slow to import, and YAML does not need it

    items = list(objects)
    whole = items[0] if len(items) == 1 else {"apiVersion": "v1", "kind": "List", "items": items}
    return json.dumps(whole, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def _lines(data: object) -> list[str]:
    """Returns ``data`` as lines without indentation."""
    if isinstance(data, Mapping) and data:
        return [line for key, value in data.items() for line in _field(key, value)]
    if isinstance(data, list | tuple) and data:
        return [line for item in data for line in _item(item)]
    return [_scalar(data)]


def _field(key: str, value: object) -> list[str]:
    name, nested = _string(key), _lines(value)
    head, colon = ([], f"{name}:") if len(name) <= _LONG_KEY else ([f"? {name}"], ":")
    if not value or not isinstance(value, Mapping | list | tuple):
        return [*head, f"{colon} {nested[0]}"]
    indent = "  " if isinstance(value, Mapping) else ""  # kubectl's style: a list starts in its key's own column
    return [*head, colon, *(indent + line for line in nested)]


def _item(value: object) -> list[str]:
    first, *rest = _lines(value)
    return [f"- {first}", *(f"  {line}" for line in rest)]


def _scalar(data: object) -> str:
    if isinstance(data, str):
        return _string(data)
    if data is None or isinstance(data, bool):
        return {None: "null", True: "true", False: "false"}[data]
    if isinstance(data, int):
        return str(data)
    if isinstance(data, float):
        return _float(data)
    return "{}" if isinstance(data, Mapping) else "[]"


def _float(data: float) -> str:
    """Returns a float's text that PyYAML reads as a float too: it requires a dot before the exponent."""
    if not math.isfinite(data):
        raise ValueError(f"{data} cannot be written to a manifest")
    mantissa, e, exponent = repr(data).partition("e")
    return f"{mantissa}{'' if '.' in mantissa else '.0'}{e}{exponent}"


def _string(text: str) -> str:
    if _PLAIN.fullmatch(text) and text.lower() not in _KEYWORDS:
        return text
    quoted = msgspec.json.encode(text).decode()
    return quoted if quoted.isascii() and "\x7f" not in quoted else re.sub(_ESCAPED, _escape, quoted)


def _escape(match: re.Match[str]) -> str:
    return f"\\u{ord(match[0]):04x}"

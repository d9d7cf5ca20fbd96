"""The canonical text of a job file's data, and the sha256 of what the job's pods are made of.

A Helm template can write the same text: that of Go's encoding/json, without HTML escapes. Keys are sorted, there are
no spaces, and characters are not escaped. Each number is the shortest text of its double: Helm's values have no other
numbers, and Kubernetes' YAML readers do not distinguish 8.0 from 8.

sha256 is CPython's built-in code: ``hashlib`` loads OpenSSL first, which adds 3 ms to each start. CPython's
Lib/random.py imports its sha512 the same way, for the same reason. A Python without such a module uses hashlib.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import msgspec

from k8sel.facts import fields
from k8sel.facts.kinds import JobKind

if TYPE_CHECKING:
    from hashlib import sha256
else:
    try:
        from _sha2 import sha256  # Python >= 3.12
    except ImportError:
        try:
            from _sha256 import sha256
        except ImportError:
            from hashlib import sha256

__all__ = ["dumps", "number", "sha256", "sha256_of_pods"]

_LINE_ENDS = {0x2028: "\\u2028", 0x2029: "\\u2029"}  # line ends in JavaScript, which Go always escapes


def dumps(data: object) -> str:
    """Returns ``data``, of JSON's types, as text."""
    if isinstance(data, dict):
        return "{" + ",".join(f"{dumps(key)}:{dumps(data[key])}" for key in sorted(data)) + "}"
    if isinstance(data, list):
        return "[" + ",".join(map(dumps, data)) + "]"
    if isinstance(data, int | float) and not isinstance(data, bool):
        return number(data)
    return msgspec.json.encode(data).decode().translate(_LINE_ENDS)


def sha256_of_pods(data: Mapping[str, Any], kind: JobKind) -> str:
    """The sha256 of a job file without the fields that only the job's object has: they may change while it runs."""
    kept = dict(data)
    for path in fields.of_object(kind.mutable):
        kept = _without(kept, path)
    return sha256(dumps(kept).encode()).hexdigest()


def _without(data: dict[str, Any], path: tuple[str, ...]) -> dict[str, Any]:
    """Returns ``data`` without the field at ``path``, and without the parents that are empty then."""
    name, *below = path
    inner = _without(data.get(name) or {}, tuple(below)) if below else {}
    return {key: inner if key == name else value for key, value in data.items() if key != name or inner}


def number(value: float) -> str:
    """Returns ``value`` as ECMAScript and Go write it: https://pkg.go.dev/encoding/json#Marshal."""
    text = repr(float(value))
    if not value or 1e-6 <= abs(value) < 1e21:
        return format(Decimal(text), "f").removesuffix(".0")
    mantissa, _, power = text.partition("e")
    return f"{mantissa}e{int(power):+d}"

"""The canonical text of a job file's data, and its sha256.

A Helm template can write the same text: it is that of Go's encoding/json, without its HTML escapes. Keys are sorted,
there are no spaces, characters stay as they are, and each number is the shortest text of its double: Helm's values have
no other numbers, and no YAML reader below Kubernetes tells 8.0 from 8.

sha256 is the interpreter's own code: ``hashlib`` loads OpenSSL first, which takes 3 ms of each start. CPython's
Lib/random.py takes its sha512 the same way, for the same reason. A Python without such a module has hashlib.
"""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import msgspec

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

__all__ = ["dumps", "number", "sha256"]

_LINE_ENDS = {0x2028: "\\u2028", 0x2029: "\\u2029"}  # ends of a line in JavaScript: Go always escapes them


def dumps(data: object) -> str:
    """``data`` (what JSON has) as text."""
    if isinstance(data, dict):
        return "{" + ",".join(f"{dumps(key)}:{dumps(data[key])}" for key in sorted(data)) + "}"
    if isinstance(data, list):
        return "[" + ",".join(map(dumps, data)) + "]"
    if isinstance(data, int | float) and not isinstance(data, bool):
        return number(data)
    return msgspec.json.encode(data).decode().translate(_LINE_ENDS)


def number(value: float) -> str:
    """``value`` as ECMAScript writes it, and Go after it: https://pkg.go.dev/encoding/json#Marshal."""
    text = repr(float(value))
    if not value or 1e-6 <= abs(value) < 1e21:
        return format(Decimal(text), "f").removesuffix(".0")
    mantissa, _, power = text.partition("e")
    return f"{mantissa}e{int(power):+d}"

"""Data in one form of text, which a Helm template can write too: as Go's encoding/json does, without its HTML escapes.

Keys sorted, no spaces, characters as they are, and each number as the shortest text of its double: Helm's values have
no other numbers, and no YAML reader below Kubernetes tells 8.0 from 8.
"""

from __future__ import annotations

from decimal import Decimal

import msgspec

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

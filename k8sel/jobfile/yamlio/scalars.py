"""Resolves an unquoted YAML word as Kubernetes' reader does: go-yaml v2 below sigs.k8s.io/yaml. Pure.

https://github.com/yaml/go-yaml/blob/v2.4.2/resolve.go (``resolve``). PyYAML's own resolver differs: it reads ``1e-3``,
``y`` and ``0o17`` as strings, and ``1:30`` as 90.
"""

from __future__ import annotations

import math
import re

Scalar = str | int | float | bool | None

_WORDS: dict[str, Scalar] = {
    **dict.fromkeys(("y", "Y", "yes", "Yes", "YES", "true", "True", "TRUE", "on", "On", "ON"), True),
    **dict.fromkeys(("n", "N", "no", "No", "NO", "false", "False", "FALSE", "off", "Off", "OFF"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), math.nan),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), math.inf),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), -math.inf),
}
_FIRST = frozenset("+-.0123456789")  # first characters of a number; `_` is none
_INTEGER = re.compile(r"([-+]?)(?:0[xX]([0-9a-fA-F]+)|0[bB]([01]+)|0[oO]?([0-7]+)|(0|[1-9][0-9]*))")
_BINARY = r"0b([-+][01]+)"  # resolve.go strips "0b", and strconv reads the rest with its sign
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_DOT_FLOAT = rf"\.{_DIGITS}(?:[eE][-+]?{_DIGITS})?"  # keeps "_": strconv.ParseFloat's own rule
_BASES = (16, 2, 8, 10)


def resolve(text: str) -> Scalar:
    """Returns the value of the unquoted word ``text``."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in _FIRST:
        return text
    if text[0] == ".":
        return _finite(text, text) if re.fullmatch(_DOT_FLOAT, text) else text
    return _number(text.replace("_", ""), text)


def _number(plain: str, text: str) -> Scalar:
    whole = _integer(plain)
    if whole is not None:
        return whole
    if _FLOAT.fullmatch(plain):
        return _finite(plain, text)
    binary = re.fullmatch(_BINARY, plain)
    if binary and -(2**63) <= int(binary[1], 2) < 2**63:
        return int(binary[1], 2)
    return text


def _integer(plain: str) -> int | None:
    """Returns ``plain`` as a 64-bit integer: signed, or unsigned if it has no sign; None if it is not one.

    Go calls strconv.ParseInt, then ParseUint.
    """
    match = _INTEGER.fullmatch(plain)
    if match is None or len(plain) > 70:  # 70: longer than any 64-bit number, and int() of a long text is slow
        return _long_integer(plain) if match else None
    digits, base = next((text, base) for text, base in zip(match.groups()[1:], _BASES, strict=True) if text)
    value = int(digits, base)
    signed = -value if match[1] == "-" else value
    limit = 2**63 if match[1] else 2**64
    return signed if -(2**63) <= signed < limit else None


def _long_integer(plain: str) -> int | None:
    """Returns the integer of a text with many leading zeros."""
    sign, rest = (plain[0], plain[1:]) if plain[0] in "+-" else ("", plain)
    prefix = rest[:2] if rest[1] in "xXbBoO" else "0"
    digits = rest[len(prefix) :].lstrip("0") or "0"
    return _integer(sign + prefix + digits) if len(digits) <= 64 else None


def _finite(plain: str, text: str) -> float | str:
    """Returns ``plain`` as a float; returns ``text`` if the number is too large for a float."""
    value = float(plain)
    return value if math.isfinite(value) else text

"""Kubernetes' quantities. Pure.

https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/api/resource/quantity.go (``parseQuantityString``).
"""

from __future__ import annotations

import re
from fractions import Fraction

_QUANTITY = re.compile(r"([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([eE][-+]?[0-9]{1,3}|[KMGTPE]i|[numkMGTPE])?")
_DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def amount(value: float | str) -> Fraction | None:
    """``value`` as a number; None where it is no quantity."""
    match = _QUANTITY.fullmatch(str(value)) if len(str(value)) <= 64 else None
    if match is None:
        return None
    number, suffix = Fraction(match[1].rstrip(".")), match[2] or ""
    return number * _factor(suffix)


def _factor(suffix: str) -> Fraction:
    if suffix in _BINARY:
        return Fraction(2) ** _BINARY[suffix]
    if suffix[:1] in ("e", "E") and len(suffix) > 1:
        return Fraction(10) ** int(suffix[1:])
    return Fraction(10) ** _DECIMAL.get(suffix, 0)

"""Reads and writes Kubernetes' quantities. Pure.

https://github.com/kubernetes/apimachinery/blob/v0.36.3/pkg/api/resource/quantity.go (``parseQuantityString``).
"""

from __future__ import annotations

import math
import re
from decimal import Decimal

from k8sel.jobfile import canonical

MOST = 2**63 - 1  # Kubernetes' highest number
QUANTITY = re.compile(r"([-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+))([eE][-+]?[0-9]{1,3}|[KMGTPE]i|[numkMGTPE])?")
DECIMAL = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}


def text(value: float | str) -> str:
    """Returns ``value`` as a quantity's text: Kubernetes' readers do not distinguish 8.0 from 8."""
    return canonical.number(value) if isinstance(value, float) else str(value)


def amount(value: float | str) -> Decimal | None:
    """Returns ``value`` as a number of up to 28 digits; None if it is not a quantity."""
    match = QUANTITY.fullmatch(text(value)) if len(text(value)) <= 64 else None
    if match is None:
        return None
    number, suffix = Decimal(match[1]), match[2] or ""
    return number * _factor(suffix)


def whole(value: float | str | None) -> int | None:
    """Returns ``value`` in whole units, rounded up; None if there is no value or it is not a quantity."""
    number = None if value is None else amount(value)
    return None if number is None else min(math.ceil(number), MOST)


def is_whole(number: Decimal) -> bool:
    """Reports whether ``number`` has no fraction."""
    return number == number.to_integral_value()


def _factor(suffix: str) -> Decimal:
    if suffix in BINARY:
        return Decimal(2) ** BINARY[suffix]
    power = int(suffix[1:]) if suffix[:1] in ("e", "E") and len(suffix) > 1 else DECIMAL.get(suffix, 0)
    return Decimal(1).scaleb(power)

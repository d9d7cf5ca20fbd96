"""Sizes with units: formats them for messages, and reads them from variables. Pure."""

from __future__ import annotations

_BINARY = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50}
_DECIMAL = {"k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}


def size(number: int) -> str:
    """Formats bytes as in a job file: ``79.64Gi``, ``64Mi``. Rounds down, so that a user can copy a found size."""
    name = next((name for name in reversed(_BINARY) if number >= _BINARY[name]), "")
    whole, hundredths = divmod(number * 100 // _BINARY.get(name, 1), 100)
    return f"{whole}.{hundredths:02}".rstrip("0").rstrip(".") + name


def parse(text: str) -> int:
    """Reads a whole number with a unit: ``40Gi``, ``80G``. Raises ValueError for anything else."""
    units = {**_BINARY, **_DECIMAL}
    number = text.rstrip("".join(units))
    unit = text[len(number) :]
    if unit not in units or not number.isascii() or not number.isdecimal() or not 0 < int(number) < 10**6:
        raise ValueError("a whole number with its unit is needed, as in 40Gi or 80G")
    return int(number) * units[unit]

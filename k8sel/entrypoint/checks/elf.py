"""Reads the libraries that a library is linked with from its ELF headers: elf(5), System V ABI, dynamic section."""

from __future__ import annotations

import struct

from k8sel.entrypoint.lean import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import IO

_LOAD, _DYNAMIC = 1, 2  # kinds of segments
_NEEDED, _STRINGS = 1, 5  # tags of the dynamic section
_MOST = 2**20  # bytes of headers and of a dynamic section
_NAME = 256  # bytes


def needed(path: str) -> list[str] | None:
    """Returns the names of the libraries that a 64-bit little-endian library needs; None if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return _needed(file)
    except (OSError, struct.error, ValueError, OverflowError, StopIteration):
        return None


def _needed(file: IO[bytes]) -> list[str] | None:
    head = file.read(64)
    if head[:6] != b"\x7fELF\x02\x01":
        return None
    (start,), (size, number) = struct.unpack_from("<Q", head, 32), struct.unpack_from("<HH", head, 54)
    headers = _at(file, start, size * number)
    # kind, flags, offset in the file, address in memory, physical address, size in the file
    segments = [struct.unpack_from("<IIQQQQ", headers, each * size) for each in range(number)]
    dynamic = [(offset, length) for kind, _, offset, _, _, length in segments if kind == _DYNAMIC]
    entries = [pair for offset, length in dynamic for pair in _pairs(file, offset, length)]
    strings = next((value for tag, value in entries if tag == _STRINGS), None)
    if strings is None:
        return None
    place = next(
        offset + strings - address
        for kind, _, offset, address, _, length in segments
        if kind == _LOAD and address <= strings < address + length
    )
    names = (_at(file, place + value, _NAME) for tag, value in entries if tag == _NEEDED)
    return [name.partition(b"\0")[0].decode(errors="replace") for name in names]


def _pairs(file: IO[bytes], offset: int, length: int) -> list[tuple[int, int]]:
    section = _at(file, offset, length)
    return [struct.unpack_from("<QQ", section, place) for place in range(0, len(section) - 15, 16)]


def _at(file: IO[bytes], offset: int, length: int) -> bytes:
    file.seek(offset)
    return file.read(min(length, _MOST))

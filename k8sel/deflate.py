"""Deflate (RFC 1951) without search for repetitions: Huffman codes for bytes, and nothing else.

Our own, because the same bytes have to give the same file wherever k8sel runs, and zlib's builds (zlib-ng, zlib-rs,
Apple's) differ in what they write. All of them read this.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Iterable

_END = 256  # the symbol behind the last byte
_LONGEST, _LONGEST_OF_LENGTHS = 15, 7  # bits that a code may have
_ORDER = (16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15)  # RFC 1951, 3.2.7


def deflated(data: bytes) -> bytes | None:
    """``data`` as one block with codes of its own; None where that would not be shorter, or not be allowed."""
    lengths = _lengths(Counter([*data, _END]), _END + 1)
    if max(lengths) > _LONGEST:
        return None
    runs = list(_runs([*lengths, 0]))  # one code for distances, of 0 bits: there are none
    meta = _lengths(Counter(symbol for symbol, _ in runs), len(_ORDER))
    if max(meta) > _LONGEST_OF_LENGTHS:
        return None
    codes, meta_codes = _codes(lengths), _codes(meta)
    head = [_number(value, bits) for value, bits in ((1, 1), (2, 2), (0, 5), (0, 5), (len(_ORDER) - 4, 4))]
    head += [_number(meta[symbol], 3) for symbol in _ORDER]
    head += [meta_codes[symbol] + rest for symbol, rest in runs]
    bits = "".join([*head, *map(codes.__getitem__, data), codes[_END]])
    packed = int(bits[::-1], 2).to_bytes((len(bits) + 7) // 8, "little")
    return packed if len(packed) < len(data) else None


def _lengths(counts: Counter[int], size: int) -> list[int]:
    """Bits of each symbol's code, 0 for one that does not occur. Equal counts in the symbols' order, always."""
    heap = [(count, symbol, [symbol]) for symbol, count in counts.items()]
    heapq.heapify(heap)
    lengths = [0] * size
    if len(heap) == 1:
        lengths[heap[0][1]] = 1
    while len(heap) > 1:
        first, second = heapq.heappop(heap), heapq.heappop(heap)
        both = first[2] + second[2]
        for symbol in both:
            lengths[symbol] += 1
        heapq.heappush(heap, (first[0] + second[0], min(first[1], second[1]), both))
    return lengths


def _codes(lengths: list[int]) -> dict[int, str]:
    """The codes that follow from their lengths, as text of 0 and 1 (RFC 1951, 3.2.2)."""
    codes, code, before = {}, 0, 0
    for length, symbol in sorted((length, symbol) for symbol, length in enumerate(lengths) if length):
        code <<= length - before
        codes[symbol] = f"{code:0{length}b}"
        code, before = code + 1, length
    return codes


def _runs(lengths: list[int]) -> Iterable[tuple[int, str]]:
    """Lengths as symbols and the bits that follow them: runs of zeros are 17 (3 to 10 of them) and 18 (11 to 138)."""
    position = 0
    while position < len(lengths):
        zeros = next((step for step, each in enumerate(lengths[position : position + 138]) if each), None)
        zeros = min(138, len(lengths) - position) if zeros is None else zeros
        if zeros < 3:
            yield lengths[position], ""
            position += 1
        else:
            yield (17, _number(zeros - 3, 3)) if zeros <= 10 else (18, _number(zeros - 11, 7))
            position += zeros


def _number(value: int, bits: int) -> str:
    return f"{value:0{bits}b}"[::-1]

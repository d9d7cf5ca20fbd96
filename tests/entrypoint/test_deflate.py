"""Our own deflate is read by zlib, and gives the same bytes for the same bytes."""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some

from k8sel import deflate
from k8sel.deflate import deflated


@given(some.binary(max_size=3000) | some.text(alphabet="ab \n", max_size=3000).map(str.encode))
def test_zlib_reads_it(data: bytes) -> None:
    packed = deflated(data)
    if packed is not None:
        assert len(packed) < len(data)
        assert zlib.decompress(packed, wbits=-15) == data


def test_a_program_gets_shorter() -> None:
    source = Path(deflate.__file__).read_bytes()
    packed = deflated(source)
    assert packed
    assert len(packed) < 0.7 * len(source)
    assert zlib.decompress(packed, wbits=-15) == source


@pytest.mark.parametrize("data", [b"", b"a", b"aaaa", bytes(range(256)) * 3])
def test_what_would_not_get_shorter_stays(data: bytes) -> None:
    assert deflated(data) is None


def test_codes_that_would_be_too_long() -> None:
    numbers = [1, 1]
    while len(numbers) < 20:  # Fibonacci's give each symbol one bit more than the next
        numbers.append(numbers[-1] + numbers[-2])
    assert deflated(b"".join(bytes([65 + symbol]) * number for symbol, number in enumerate(numbers))) is None


def test_these_bytes_and_no_others() -> None:
    packed = deflated(b"to be or not to be, that is the question\n" * 9) or b""
    assert hashlib.sha256(packed).hexdigest() == "ee010a96ee1eb51f671c0ee246708f0d0e41c3a502ed3a3a25d4ec974e579730"

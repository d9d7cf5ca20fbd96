"""Compares how k8sel reads and writes words with Kubernetes' own reader (sigs.k8s.io/yaml, in Go)."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from k8sel.errors import SpecError
from k8sel.jobfile.yamlio import dump, parse

# fmt: off
WORDS = [
    # words
    "y", "Y", "yes", "Yes", "YES", "yEs", "n", "N", "no", "No", "NO", "nO", "true", "True", "TRUE", "tRUE", "false",
    "False", "FALSE", "on", "On", "ON", "oN", "off", "Off", "OFF", "null", "Null", "NULL", "nULL", "~", "none",
    "None", "yes1", "nope", "truely", "of", "t", "f", "T", "F", "o", "Infinity", "NaN", "nan", "inf", "Inf",
    # whole numbers
    "0", "1", "-1", "+1", "00", "01", "007", "08", "09", "018", "-08", "+08", "0o17", "0O17", "-0o17", "0o", "0o8",
    "0x10", "0X10", "0xff", "0xFF", "0xfg", "0x", "-0x10", "+0x10", "0b101", "0B101", "0b", "0b2", "-0b101", "+0b101",
    "0b+1", "0b-1", "-0b-1", "0b_1", "1_000", "1__000", "_1", "1_", "0_7", "0x_1f", "1_000_", "-_1", "+", "-", "+-1",
    "--1", "++1", "9223372036854775807", "9223372036854775808", "-9223372036854775808", "-9223372036854775809",
    "18446744073709551615", "18446744073709551616", "+18446744073709551615", "+9223372036854775807",
    "0xFFFFFFFFFFFFFFFF", "0x10000000000000000", "-0x8000000000000000", "-0x8000000000000001",
    "0b1111111111111111111111111111111111111111111111111111111111111111", "0777777777777777777777",
    "01777777777777777777777", "02000000000000000000000", "1234567890123456789012345678901234567",
    # floats
    "1.0", "1.", "1.5", "-1.5", "+1.5", ".5", "-.5", "+.5", ".", "..", "...5", "-.", "+.", ".e5", "1e3", "1E3",
    "1e-3", "1e+3", "-1e-3", "1.e3", "1.5e3", ".5e3", ".5E-3", "1e", "1e+", "e1", "1e1.5", "1e400", "-1e400",
    "1e-400", "0.1e3", "1_0.5", "1.5_5", "1_e3", ".5_0",
    ".5_0e1_0", ".5_e3", "._5", ".5_", "1.2.3", "1..2", "08.5", "00.5", "0e0",
    "0x1p4", "0x1.8", "1p3", "1f", "2.50", "1e5", "12345678.9", "0.1", "1e21", "1e-7", "6.02e23", "-0", "-0.0", "+0",
    # dates, sexagesimals, addresses, versions, quantities
    "2001-01-01", "2001-1-1", "2001-01-01T10:00:00Z", "2001-01-01 10:00:00", "20010101", "1:30", "1:30:00",
    "12:30:45.5", "190:20:30", "10.0.0.1", "1.2.3.4/8", "v1", "1.30", "1.30.0", "64Gi", "500m", "1k", "0.5Gi", "16G",
    "1e3Mi", "8GiB",
    # odd but plain
    "=", "<", "<=", "a:b", "a#b", "-a", "-1a", "1a", "a-1", "$x", "$(X)", "(", ")", "/", "\\", "^", "_", "__", "a b",
    "1 2", "1,000", "1'", 'a"b', "a'b", ":a", "?a", "?x", "-x", "é", "日本", "1é", "😀", ".inf5", ".nano", ".a", ".1a",
    "+a", "0.", "-0.", "+1_0", "0xdeadBEEF", "0b0",
    "0b00000000000000000000000000000000000000000000000000000000000000000000001",
    "0000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000017",
]
QUOTED = ['"1e-3"', "'1e-3'", '"on"', "''", '""', '"\\x41\\t\\u00e9"', "'it''s'", "!!str 5", "!!str on", "! 5"]
# fmt: on

Reader = Callable[[list[str]], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def kubernetes(tmp_path_factory: pytest.TempPathFactory) -> Reader:
    """Kubernetes' reader: texts to their values."""
    if not shutil.which("go"):
        if os.environ.get("K8SEL_REQUIRE_ALL") == "1":
            pytest.fail("Go is needed: K8SEL_REQUIRE_ALL=1")
        pytest.skip("Go is not installed: Kubernetes' own YAML reader cannot be built")
    program = tmp_path_factory.mktemp("goyaml") / "goyaml"
    source = Path(__file__).parent / "goyaml"
    subprocess.run(["go", "build", "-o", str(program), "."], cwd=source, check=True)

    def read(texts: list[str]) -> list[dict[str, Any]]:
        done = subprocess.run([str(program)], input=json.dumps(texts).encode(), capture_output=True, check=True)
        answers: list[dict[str, Any]] = json.loads(done.stdout)
        return answers

    return read


def ours(text: str) -> str:
    """Returns what k8sel reads, in JSON's types."""
    try:
        return json_repr(parse(text.encode(), "x.yaml")[0].data["v"])
    except SpecError:
        return "refused"


def json_repr(value: object) -> str:
    """A value with its JSON type: True is not 1. Go writes the float 8.0 as 8, and 1e20 as 100000000000000000000."""
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**64:
        value = float(value)
    return repr(int(value) if isinstance(value, float) and abs(value) < 2**53 and value.is_integer() else value)


def test_the_table_has_no_word_twice() -> None:
    assert len(set(WORDS)) == len(WORDS) >= 200


def test_words_mean_what_they_mean_to_kubernetes(kubernetes: Reader) -> None:
    texts = [f"v: {word}\n" for word in WORDS + QUOTED]
    theirs = ["refused" if "error" in answer else json_repr(answer["value"]["v"]) for answer in kubernetes(texts)]
    assert dict(zip(texts, map(ours, texts), strict=True)) == dict(zip(texts, theirs, strict=True))


def test_what_json_cannot_hold_is_refused_by_both(kubernetes: Reader) -> None:
    texts = [f"v: {word}\n" for word in (".inf", "-.inf", "+.Inf", ".nan", ".NaN")]
    assert all("error" in answer for answer in kubernetes(texts))
    for text in texts:
        with pytest.raises(SpecError, match="is not a number in JSON"):
            parse(text.encode(), "x.yaml")


def test_kubernetes_reads_what_is_written(kubernetes: Reader) -> None:
    escapes = ["\x7f", "\x85", "\xa0", "\u2028", "\ufeff", "\uffff", "\t", "\n", "\x00", "\x1f", "a\nb ", " ", ""]
    objects = [{"v": [word, {word: {"x": [[word]]}}]} for word in WORDS + QUOTED + escapes + ["k" * 3000]]
    answers = kubernetes([dump([item]) for item in objects])
    assert [answer.get("value") for answer in answers] == objects

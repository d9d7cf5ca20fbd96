"""The scripts in bench/ fit the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from scripts import loaded

BENCH = Path(__file__).parents[1] / "bench"


def test_each_mutation_still_has_its_place_in_the_code() -> None:
    done = subprocess.run(
        [sys.executable, BENCH / "mutations.py", "--list"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) >= 147


def test_fuzzing_finds_nothing_in_a_few_inputs() -> None:
    """Each target runs: a fault in the script itself, or one that is easy to find, ends here."""
    done = subprocess.run(
        [sys.executable, BENCH / "fuzz.py", "--inputs", "2000", "--seeds", "7"],
        capture_output=True,
        text=True,
        check=False,
    )

    *rows, total = done.stdout.splitlines()
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert len(rows) == 10
    assert total.startswith("2000 inputs, 0 distinct tracebacks, 0 hangs, peak ")
    assert all(int(row.split(" inputs, ")[1].split()[0]) for row in rows), "some inputs of each target are accepted"


def test_fuzzing_notices_a_traceback_and_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(BENCH)
    fuzz = loaded("bench/fuzz.py")

    def fails(text: bytes) -> None:
        if text[-1:] > b"m":
            raise IndexError("out of range")
        while text[-1:] < b"0":
            pass

    monkeypatch.setattr(fuzz, "SECONDS", 0.05)
    monkeypatch.setattr(fuzz.resource, "setrlimit", lambda *_: None)
    monkeypatch.setitem(fuzz.TARGETS, "load", fuzz.Target(fails, lambda: [b"az", b"5"], 1))
    row = fuzz.run("load", 1, 50)
    assert row.hangs > 0
    assert 0 < row.accepted < 50 - row.hangs
    assert {place.partition(" at ")[0] for place in row.tracebacks} == {"hang", "IndexError"}

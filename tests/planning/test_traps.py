"""docs/traps.md names, for each trap, tests that are there."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parent.parent
PAGE = TESTS.parent / "docs" / "traps.md"


def rows() -> list[list[str]]:
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")]
    found = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]
    return [row for row in found if row[0] != "trap"]


def test_every_trap_has_its_tests() -> None:
    known = {
        name
        for file in TESTS.rglob("test_*.py")
        for name in re.findall(r"^def (test_\w+)", file.read_text(), re.MULTILINE)
    }
    named = {trap: re.findall(r"`(test_\w+)`", row[-1]) for row in rows() for trap in row[:1]}

    assert len(named) >= 40
    assert [trap for trap, tests in named.items() if not tests] == []
    assert {test for tests in named.values() for test in tests} - known == set()

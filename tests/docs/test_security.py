"""Compares docs/security.md with the tests that it names."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in (ROOT / "docs" / "security.md").read_text().splitlines()
    if line.startswith("|") and not re.match(r"\|[-|]+$|\| (promise|attack) ", line)
]


def test_every_line_names_its_tests_or_promises_nothing() -> None:
    bare = [row[0] for row in ROWS if not re.findall("`tests/[^`]+`", row[-1])]

    assert [row[0] for row in ROWS if row[0] in bare and "no promise" not in row[1]] == []
    assert len(ROWS) > len(bare) + 20


def test_every_test_that_it_names_exists() -> None:
    named = [test for row in ROWS for test in re.findall("`(tests/[^`]+)`", row[-1])]
    missing = []
    for test in named:
        file, _, name = test.partition("::")
        text = (ROOT / file).read_text() if (ROOT / file).is_file() else ""
        if f"def {name or 'test_'}" not in text:
            missing.append(test)

    assert missing == []

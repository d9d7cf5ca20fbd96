"""Each example of docs/from.md gives what stands below it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "from.md"
_EXAMPLE = re.compile(r"```sh\n(.*?)```\n\n(?:```yaml\n(.*?)```\n\n)?```text\n(.*?)```", re.DOTALL)


class Example(NamedTuple):
    command: str
    made: str
    said: str


EXAMPLES = [Example(*match) for match in _EXAMPLE.findall(PAGE.read_text())]


def test_every_example_is_found() -> None:
    assert len(EXAMPLES) == PAGE.read_text().count("```sh\n") == 4


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.command.split("\n")[0] for example in EXAMPLES])
def test_an_example_is_what_happens(example: Example) -> None:
    script = f'k8sel() {{ "{sys.executable}" -m k8sel "$@"; }}\n{example.command}'
    result = subprocess.run(["/bin/sh", "-c", script], capture_output=True, text=True, check=False)

    assert result.returncode == (0 if example.made else 2)
    assert result.stdout == example.made
    assert result.stderr == example.said

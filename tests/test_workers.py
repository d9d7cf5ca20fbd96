"""Tests of one group, which share a daemon or a build, run in one of the processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = """
import os
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("one")


@pytest.mark.parametrize("number", range(8))
def test_of_the_group(number):
    Path(__file__).with_name(f"process-{os.getpid()}").touch()
"""


def test_a_group_stays_in_one_process(tmp_path: Path) -> None:
    (tmp_path / "test_group.py").write_text(TESTS)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-n", "2", "--dist", "loadgroup", "."]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert "8 passed" in done.stdout
    assert len(list(tmp_path.glob("process-*"))) == 1

"""The scripts in bench/ fit the code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

BENCH = Path(__file__).parents[1] / "bench"


def test_each_mutation_still_has_its_place_in_the_code() -> None:
    done = subprocess.run(
        [sys.executable, BENCH / "mutations.py", "--list"], capture_output=True, text=True, check=False
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) >= 147

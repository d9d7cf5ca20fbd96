"""Each program of docs/library.md prints what stands below it."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
PROGRAM = re.compile(r"```python\n(.*?)```\n\n```text\n(.*?)```", re.DOTALL)
(JOB,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)


def ran(programs: list[str]) -> list[str]:
    """Returns the output of each program; they share their names, as on the page."""
    names: dict[str, object] = {}
    printed = []
    for program in programs:
        with contextlib.redirect_stdout(io.StringIO()) as out:
            exec(program, names)
        printed.append(re.sub(r"-k8sel-[0-9a-f]+$", "-k8sel-HASH", out.getvalue(), flags=re.MULTILINE))
    return printed


def test_every_program_is_found() -> None:
    assert len(PROGRAM.findall(PAGE)) == PAGE.count("```python\n") > 0


def test_the_programs_print_what_stands_below_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "job.yaml").write_text(JOB, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    programs, outputs = zip(*PROGRAM.findall(PAGE), strict=True)

    assert ran(list(programs)) == list(outputs)

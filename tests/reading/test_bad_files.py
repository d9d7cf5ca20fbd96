"""Bad job files with their whole message: bad/<what>/<name>.yaml and <name>.txt beside it.

<what> is a Pod Security level, a door, or what the file is bad at. The messages are compared whole, and no command
writes them: a changed message is changed by hand, and read.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from k8sel.errors import Problem, SpecError
from k8sel.jobfile.defaults import default
from k8sel.jobfile.load import load, locate
from k8sel.jobfile.validate import namespace_policy, validate

BAD = Path(__file__).parent / "bad"
FILES = sorted(BAD.glob("*/*.yaml"))
DOORS = ("docker", "run")
LEVELS = ("restricted", "baseline")


def message(text: bytes, what: str) -> str:
    """All that k8sel has to say about the file ``text``, called job.yaml."""
    try:
        return "\n".join(str(problem) for problem in problems(text, what)) + "\n"
    except SpecError as error:
        return f"{error}\n"


def problems(text: bytes, what: str) -> list[Problem]:
    """Of a file that decodes. Raises SpecError where it does not."""
    door = what if what in DOORS else "kubernetes"
    found: list[Problem] = []
    for job in load(text, "job.yaml"):
        defaulted = default(job.file, door)
        level = namespace_policy(defaulted, what) if what in LEVELS else []
        found += locate(job.document, validate(defaulted, door) + level)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_whole_message(path: Path) -> None:
    assert message(path.read_bytes(), path.parent.name) == path.with_suffix(".txt").read_text()


def test_every_file_has_a_message_and_every_message_a_file() -> None:
    assert {path.with_suffix(".txt") for path in FILES} == set(BAD.glob("*/*.txt"))
    assert len(FILES) >= 80

"""The bad job files: tables of cases in bad/, each a change of one good file and the whole message about it.

A case has a name, what k8sel ``says`` about it (``{types}`` stands for the table's types), and one of these:
- ``change``: lines of a job file. A line that has the key of a line of BASE replaces it, with all that is below it; an
  equal line only leads to what changes below it; any other line comes last in its block.
- ``text``: the whole file, where the text itself is what is bad.
``without`` names a field of BASE that the file lacks.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import msgspec

from k8sel.facts.accelerators import ROWS
from k8sel.jobfile.yamlio import parse

BAD = Path(__file__).parent / "bad"
BASE = """\
apiVersion: k8sel.dev/v1alpha1
kind: AcceleratedJob
metadata:
  name: train
spec:
  image: registry.example/train:1
  command: [python, train.py]
  launcher: torchrun
  accelerator:
    type: cuda
"""

TYPES = {
    "{types}": ", ".join(ROWS),
    "{types in containers}": ", ".join(row.name for row in ROWS.values() if row.in_container),
}


class Case(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A bad job file, and what k8sel says about it on a platform, in a namespace with a Pod Security level."""

    says: str
    change: str = ""
    text: str | None = None
    without: str = ""
    platform: Literal["kubernetes", "docker", "run"] = "kubernetes"
    level: Literal["restricted", "baseline"] | None = None

    @property
    def message(self) -> str:
        """The whole message, with the types of accelerators in the table's order."""
        said = self.says
        for name, types in TYPES.items():
            said = said.replace(name, types)
        return said

    @property
    def file(self) -> bytes:
        """The bytes of the job file."""
        return (changed(self.change, self.without) if self.text is None else self.text).encode()


def changed(change: str, without: str = "") -> str:
    """BASE with the lines of ``change``, and without the field ``without``."""
    lines = [line for line in BASE.splitlines(keepends=True) if not without or line.split(":")[0].strip() != without]
    return "".join(_merge(lines, change.splitlines(keepends=True)))


def _merge(base: list[str], change: list[str]) -> list[str]:
    blocks = _blocks(base)
    keys = [_key(block) for block in blocks]
    for block in _blocks(change):
        if _key(block) not in keys:
            blocks.append(block)
            continue
        at = keys.index(_key(block))
        same = block[0] == blocks[at][0]
        blocks[at] = [block[0], *_merge(blocks[at][1:], block[1:])] if same else block
    return [line for block in blocks for line in block]


def _key(block: list[str]) -> str:
    return block[0].split(":")[0]


def _blocks(lines: list[str]) -> list[list[str]]:
    """Each line with the lines below it that are indented deeper than the first."""
    blocks: list[list[str]] = []
    for line in lines:
        if blocks and _indent(line) > _indent(lines[0]):
            blocks[-1].append(line)
        else:
            blocks.append([line])
    return blocks


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))


def _cases(path: Path) -> dict[str, Case]:
    (document,) = parse(path.read_bytes(), path.name)  # which refuses two cases with one name
    cases = msgspec.convert(document.data, dict[str, Case])
    return {f"{path.stem}/{name}": case for name, case in cases.items()}


CASES = {name: case for path in sorted(BAD.glob("*.yaml")) for name, case in _cases(path).items()}

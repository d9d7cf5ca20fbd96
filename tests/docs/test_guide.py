"""Each command line of docs/guide.md gives what stands below it."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest
from fromline.guides import LINES, REFUSED

from docs.test_docs import ROOT

PAGE = (ROOT / "docs" / "guide.md").read_text(encoding="utf-8")
FROM, RUN = re.findall(r"^k8sel (from .*) > job.yaml\nk8sel (run .*) job.yaml$", PAGE, re.MULTILINE)[0]
BLOCK = re.compile(r"```(sh|yaml|text)\n(.*?)```\n", re.DOTALL)


class Section(NamedTuple):
    """A command line, and what stands below it; one that is refused makes and starts nothing."""

    line: str
    made: str = ""
    started: str = ""
    said: str = ""


def section(text: str) -> Section:
    (_, line), *below = BLOCK.findall(text)
    kinds = [kind for kind, _ in below]
    assert kinds in (["text"], ["yaml", "text"], ["yaml", "text", "text"])
    if kinds == ["text"]:
        return Section(line, said=below[0][1])
    return Section(line, *(text for _, text in below))


SECTIONS = {part.split("\n")[0]: section(part) for part in re.split(r"^### ", PAGE, flags=re.MULTILINE)[1:]}


def words(text: str) -> list[str]:
    """A line however it is indented."""
    return text.split()


def k8sel(options: str, *, read: str, folder: Path) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not re.search("VISIBLE|AFFINITY", name)}
    command = [sys.executable, "-m", "k8sel", *shlex.split(options)]
    return subprocess.run(command, input=read, env=clean, cwd=folder, capture_output=True, text=True, check=False)


def test_every_command_is_on_the_page() -> None:
    known = [*(line.text for line in LINES.values()), *REFUSED]
    assert [words(each.line) for each in SECTIONS.values()] == [words(text) for text in known]


@pytest.mark.parametrize("title", [title for title, each in SECTIONS.items() if each.made])
def test_a_command_becomes_and_starts_what_stands_below_it(title: str, tmp_path: Path) -> None:
    shown = SECTIONS[title]
    made = k8sel(FROM, read=shown.line, folder=tmp_path)
    (tmp_path / "job.yaml").write_text(made.stdout, encoding="utf-8")
    started = k8sel(f"{RUN} job.yaml", read="", folder=tmp_path)

    assert (made.returncode, started.returncode) == (0, 0), made.stderr + started.stderr
    assert made.stdout == shown.made
    assert re.sub(r"'K8SEL_EXPECT=[^']*'", "K8SEL_EXPECT=...", started.stdout) == shown.started.replace(" \\\n  ", " ")
    assert made.stderr + started.stderr == shown.said


@pytest.mark.parametrize("title", [title for title, each in SECTIONS.items() if not each.made])
def test_a_refused_command_is_refused_in_these_words(title: str, tmp_path: Path) -> None:
    refused = k8sel(FROM, read=SECTIONS[title].line, folder=tmp_path)

    assert (refused.returncode, refused.stdout, refused.stderr) == (2, "", SECTIONS[title].said)


def test_the_table_leads_to_every_command() -> None:
    """GitHub makes a heading's address so: small letters, no signs, and - for a space."""
    addresses = [re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-") for title in SECTIONS]
    assert re.findall(r"^\| \[.*?\]\(#(.*?)\)", PAGE, re.MULTILINE) == addresses

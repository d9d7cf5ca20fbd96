"""Compares the documentation with the code."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from scripts import loaded

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
)


def generator() -> ModuleType:
    return loaded("docs/generate.py")


def test_generated_pages_are_current() -> None:
    stale = [name for name, text in generator().pages().items() if (ROOT / "docs" / name).read_text() != text]
    assert stale == [], "run: python docs/generate.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", page.read_text())]
    missing = [link for link in links if link and "://" not in link and not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_comment_ends_a_table_before_its_rows(page: Path) -> None:
    assert "---|\n<!--" not in page.read_text()


def test_every_command_is_in_the_changelog_and_the_reference() -> None:
    for command in generator().COMMANDS:
        assert (
            f"`{command}`" in (ROOT / "CHANGELOG.md").read_text()
            or f"`k8sel {command}`" in (ROOT / "CHANGELOG.md").read_text()
        ), command
        assert f"## k8sel {command}" in (ROOT / "docs" / "cli.md").read_text(), command


def test_the_readme_leads_to_every_page() -> None:
    readme = (ROOT / "README.md").read_text()
    pages = [str(page.relative_to(ROOT)) for page in PAGES if page.parent == ROOT / "docs"]
    assert [page for page in [*pages, "charts/k8sel/README.md"] if f"]({page})" not in readme] == []


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"make ([a-z-]+)", (ROOT / "README.md").read_text()))
    assert {target for target in named if f"\n{target}:" not in makefile} == set()


def test_make_cluster_names_what_is_missing_before_it_installs(tmp_path: Path) -> None:
    for program in ("bash", "cat", "dirname", "id", "make", "paste", "pgrep", "sort", "tr", "uname"):
        (tmp_path / program).symlink_to(shutil.which(program) or program)
    without = {"PATH": str(tmp_path), "HOME": str(tmp_path), "VENV": str(tmp_path / "venv")}
    end = subprocess.run(
        [tmp_path / "make", "--environment-overrides", "cluster"],
        capture_output=True, text=True, check=False, cwd=ROOT, env=without,
    )  # fmt: skip

    assert end.returncode == 2
    assert re.search(r"apt-get install( \S+)* containerd( \S+)* gcc ", end.stdout)
    assert not (tmp_path / "venv").exists()


def test_the_entrypoints_page_says_what_it_says_itself() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "k8sel.entrypoint", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert f"```\n{shown}```\n" in (ROOT / "docs" / "entrypoint.md").read_text()


@pytest.mark.parametrize(
    "words",
    [
        " expected, ",
        "start the container without privileged: it has devices that it did not request",
        " is set, ",
        "the image has no python3",
        "no program ",
        "nodes expected, ",
        "no operator handles this job",
        "to be admitted",
        "differs from the job on the cluster",
        "there is no namespace ",
        "the cluster has no ",
        " does not answer",
        "no node of this cluster has ",
        "other pods may share the node",
    ],
)
def test_messages_that_are_explained_are_still_said(words: str) -> None:
    sources = [*(ROOT / "k8sel").rglob("*.py"), *(ROOT / "k8sel" / "bundle").glob("*.sh")]
    assert any(words in source.read_text() for source in sources)
    assert words in (ROOT / "docs" / "troubleshooting.md").read_text()


def test_decisions_are_numbered_without_gaps_and_their_titles_agree() -> None:
    pages = sorted((ROOT / "docs" / "decisions").glob("*.md"))
    titles = [page.read_text().split("\n")[0] for page in pages]
    numbers = [
        (int(page.name[:4]), int(title.split(".")[0].removeprefix("# ")))
        for page, title in zip(pages, titles, strict=True)
    ]
    assert numbers == [(number, number) for number in range(1, len(pages) + 1)]

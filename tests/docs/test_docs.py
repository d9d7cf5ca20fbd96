"""What the documentation claims, held against the code."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    ROOT / name
    for name in subprocess.run(
        ["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split()
)


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "docs" / "generate.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_generated_pages_are_current() -> None:
    stale = [name for name, text in generator().pages().items() if (ROOT / "docs" / name).read_text() != text]
    assert stale == [], "run: python docs/generate.py"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_resolve(page: Path) -> None:
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)]+)\)", page.read_text())]
    missing = [link for link in links if link and "://" not in link and not (page.parent / link).exists()]
    assert missing == []


def test_every_command_is_in_the_changelog_and_the_reference() -> None:
    for command in generator().COMMANDS:
        assert (
            f"`{command}`" in (ROOT / "CHANGELOG.md").read_text()
            or f"`k8sel {command}`" in (ROOT / "CHANGELOG.md").read_text()
        ), command
        assert f"## k8sel {command}" in (ROOT / "docs" / "cli.md").read_text(), command


def test_make_targets_of_the_readme_exist() -> None:
    makefile = (ROOT / "Makefile").read_text()
    named = set(re.findall(r"make ([a-z-]+)", (ROOT / "README.md").read_text()))
    assert {target for target in named if f"\n{target}:" not in makefile} == set()

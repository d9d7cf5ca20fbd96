"""docs/selection.md, made from what tests recorded: only a run on real hardware lets it say so."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from docs.test_docs import ROOT, generator

RUN: dict[str, object] = {
    "cell": "cuda run node order",
    "devices": [1, 0],
    "machine": "2 x NVIDIA H200",
    "driver": "570.86.15",
    "k8sel": "0123abc",
    "date": "2026-01-02",
}


def page(runs: list[dict[str, object]], folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The page, where these runs are recorded."""
    made = generator()
    shutil.copytree(ROOT / "docs", folder, dirs_exist_ok=True)
    (folder / "hardware.json").write_text(json.dumps(runs))
    monkeypatch.setattr(made, "HERE", folder)
    text: str = made._filled("selection.md", made._selection())  # of the pages, this one alone
    return text


def test_only_a_recorded_run_says_real_hardware(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    without = page([], tmp_path / "without", monkeypatch).splitlines()
    with_one = page([RUN], tmp_path / "with", monkeypatch).splitlines()
    assert not any("real hardware: " in line for line in without)
    (changed,) = [line for line in with_one if "real hardware: " in line]
    (before,) = [line for line in without if line.startswith("| docker, node; run, node | recorded layout: `CUDA_")]
    assert changed.replace("real hardware", "recorded layout").split(" | ")[1:] == before.split(" | ")[1:]
    assert changed.startswith("| run, node | ")
    assert changed.count("real hardware: `CUDA_VISIBLE_DEVICES=GPU-..2,GPU-..0`") == 1
    assert "| cuda run node order | [1, 0] | 2 x NVIDIA H200 | 570.86.15 | 0123abc | 2026-01-02 |" in with_one
    assert "None so far." in without


def test_the_overview_says_in_a_word_what_the_cells_say() -> None:
    cells = json.loads((ROOT / "docs" / "selection.json").read_text())
    lines = (
        (ROOT / "docs" / "selection.md")
        .read_text()
        .split("<!-- overview from here -->\n")[1]
        .split("<!-- to here -->")[0]
        .splitlines()[2:]
    )
    assert "| cuda | every platform | yes | yes | yes | yes |" in lines
    assert "| xpu | kubernetes, docker, run | yes | yes | process | yes |" in lines
    assert "| hpu | every platform | node | node | node | yes |" in lines
    assert {line.split()[1] for line in lines} == {name.split()[0] for name in cells}

"""Helm and the chart's renderer, built from Go modules on first use."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from charts.rendering import CHART, HELM, Renderer
from cluster import machine
from conftest import unavailable


def built(name: str) -> None:
    """Builds a program unless it is there."""
    if not shutil.which("go", path=f"{shutil.os.environ['PATH']}:/usr/local/go/bin"):
        unavailable("no Go, from which helm is built: https://go.dev/doc/install (1.24 or newer)")
    with machine.locked("charts.lock"):
        machine.script("build", name)


@pytest.fixture(scope="session")
def helm() -> Path:
    """The real helm."""
    built("helm")
    return HELM


@pytest.fixture(scope="session")
def renderer() -> Iterator[Renderer]:
    """Helm's engine for the chart, in one process."""
    built("chart-render")
    with Renderer(CHART) as started:
        yield started

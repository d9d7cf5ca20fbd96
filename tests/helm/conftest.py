"""Helm and the chart's renderer, built from Go modules on first use."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import unavailable

from cluster import machine
from helm.rendering import CHART, HELM, Renderer


def _build(name: str) -> None:
    """Makes a program, unless it is there already."""
    if not shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin"):
        unavailable("no Go, with which helm is built: https://go.dev/doc/install (1.24 or newer)")
    with machine.locked("charts.lock"):
        machine.script("build", name)


@pytest.fixture(scope="session")
def helm() -> Path:
    """The real helm."""
    _build("helm")
    return HELM


@pytest.fixture(scope="session")
def chart_render() -> None:
    """Builds the program that a Renderer needs."""
    _build("chart-render")


@pytest.fixture(scope="session")
def renderer(chart_render: None) -> Iterator[Renderer]:
    """Helm's engine with the chart, in one process."""
    with Renderer(CHART) as started:
        yield started

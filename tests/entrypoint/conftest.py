"""Machines for the entrypoint's tests."""

from __future__ import annotations

from pathlib import Path

import pytest

from entrypoint import rooted
from entrypoint.machines import Box
from k8sel.bundle import files


@pytest.fixture(scope="session")
def entrypoint_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that the ConfigMap mounts at /k8sel."""
    folder = tmp_path_factory.mktemp("k8sel")
    (folder / files.ARCHIVE).write_bytes(rooted.archive())
    (folder / files.SCRIPT).write_text(files.script(), encoding="utf-8")
    return folder


@pytest.fixture
def box(tmp_path: Path, entrypoint_folder: Path) -> Box:
    """A machine without any device, library or driver."""
    made = Box(tmp_path / "box", entrypoint_folder)
    made.nodes()
    return made


@pytest.fixture
def nvml_box(box: Box, fake_nvml: Path) -> Box:
    """A machine with the (fake) driver library, and GPUs with minors 0, 1 and 2: PCI order is 2, 1, 0."""
    box.library(Path(fake_nvml))
    box.nodes(0, 1, 2)
    return box

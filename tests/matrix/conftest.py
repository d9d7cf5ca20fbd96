"""Fixtures that every platform of the matrix uses."""

from __future__ import annotations

from pathlib import Path

import pytest

from matrix import doors


@pytest.fixture(scope="session")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as an image has it, with the entrypoint as a container gets it."""
    folder = tmp_path_factory.mktemp("image")
    doors.furnish(folder)
    return folder

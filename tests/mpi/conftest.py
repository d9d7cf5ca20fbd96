"""Fixtures for the tests with real MPI runtimes."""

from __future__ import annotations

from pathlib import Path

import pytest

from mpi.runtimes import INSTALLED, Runtime, installed


@pytest.fixture(params=INSTALLED)
def runtime(request: pytest.FixtureRequest, mpis: Path, plain_python: str) -> Runtime:
    """Each MPI in turn."""
    return installed(request.param, mpis, plain_python)

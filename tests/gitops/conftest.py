"""The programs that call k8sel, built from Go modules on first use."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from conftest import unavailable

from cluster import machine


@pytest.fixture(scope="session")
def kustomize() -> Path:
    """The real kustomize, which runs functions; kubectl's own does not."""
    if not shutil.which("go", path=f"{os.environ['PATH']}:/usr/local/go/bin"):
        unavailable("no Go, with which kustomize is built: https://go.dev/doc/install (1.24 or newer)")
    with machine.locked("kustomize.lock"):
        machine.script("build", "kustomize")
    return machine.CACHE / "bin" / "kustomize"

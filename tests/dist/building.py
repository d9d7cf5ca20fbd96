"""release/build.py, which is in no package."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def builder() -> ModuleType:
    """The module."""
    spec = importlib.util.spec_from_file_location("release_build", ROOT / "release" / "build.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

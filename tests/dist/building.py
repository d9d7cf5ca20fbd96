"""release/build.py, which is in no package."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

from scripts import loaded

ROOT = Path(__file__).parents[2]


def builder() -> ModuleType:
    """The module."""
    return loaded("release/build.py")

"""The project's programs that are in no package: charts/, docs/ and manifests/generate.py, release/build.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[1]


def loaded(path: str) -> ModuleType:
    """The program at ``path`` below the project's folder, as a module of its own."""
    spec = importlib.util.spec_from_file_location(path.removesuffix(".py").replace("/", "_"), ROOT / path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module

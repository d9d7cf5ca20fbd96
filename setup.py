"""The one step of the build that pyproject.toml cannot say: a wheel holds the entrypoint's zipapp ready-made."""

from __future__ import annotations

import sys
from pathlib import Path

from setuptools import setup
from setuptools.command.build_py import build_py

sys.path.insert(0, str(Path(__file__).parent))

from k8sel.bundle import files, zipapp


class BuildPy(build_py):
    """Puts the zipapp beside the tables, so that rendering need not make it each time."""

    def run(self) -> None:
        """Builds the package, and the zipapp into it; an editable install keeps reading the sources."""
        super().run()
        if not self.editable_mode:
            Path(self.build_lib, "k8sel", "bundle", files.ARCHIVE).write_bytes(zipapp.build())


setup(cmdclass={"build_py": BuildPy})

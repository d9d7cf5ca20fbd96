"""What only these tests need of the machine."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import unavailable

from cluster import machine

# accelerate, and what its launcher imports beside torch.
PACKAGES = ("accelerate", "huggingface_hub", "psutil", "pyyaml", "safetensors", "packaging", "tqdm", "fsspec")


@pytest.fixture(scope="session")
def accelerate(cluster: object) -> Path:
    """A folder with accelerate for the image's Python, to be mounted at /accelerate; its bin/ has the program."""
    folder = machine.CACHE / "accelerate"
    program = folder / "bin" / "accelerate"
    with machine.locked("accelerate.lock"):
        if not program.exists():
            command: list[str | Path] = [
                sys.executable,
                "-m",
                "pip",
                "install",
                "-q",
                "--no-deps",
                "--upgrade",
                "--target",
                folder,
                *PACKAGES,
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                unavailable(f"no accelerate: {done.stderr}")
            # The whole command line would import every subcommand, and with them far more packages.
            program.write_text(
                '#!/bin/sh\n[ "$1" = launch ] && shift\nexec python3 -m accelerate.commands.launch "$@"\n'
            )
            program.chmod(0o755)
    return folder

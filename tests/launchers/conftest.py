"""A machine with four fake GPUs, and the launchers on PATH."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from entrypoint import rooted
from entrypoint.machines import Box

from k8sel.facts.accelerators import owned_env


@pytest.fixture(scope="session")
def installed(torch_env: dict[str, str], accelerate: Path, deepspeed: Path) -> dict[str, str]:
    """The environment in which all of them are found, and no variable chooses devices."""
    clean = {name: value for name, value in torch_env.items() if name not in owned_env()}
    python = Path(sys.executable).parent  # the programs ask for python3
    path = (str(python), str(accelerate / "bin"), str(deepspeed / "bin"), torch_env["PATH"])
    modules = (torch_env["PYTHONPATH"], str(accelerate), str(deepspeed))
    return {**clean, "PATH": ":".join(path), "PYTHONPATH": ":".join(modules)}


@pytest.fixture
def box(tmp_path: Path, fake_nvml: Path) -> Box:
    """Four GPUs whose PCI order is minors 7, 6, 5, 4; torch counts them by the same library as the entrypoint."""
    made = Box(tmp_path / "machine", tmp_path)
    made.nodes(4, 5, 6, 7)
    made.library(fake_nvml)
    return made


@pytest.fixture
def env(installed: dict[str, str], box: Box, tmp_path: Path) -> dict[str, str]:
    """The same on that machine."""
    return {
        **rooted.environ(box.root, installed),
        "FAKE_NVML_DEV": str(box.root / "dev"),
        "LD_LIBRARY_PATH": str(box.root / "lib"),
        "K8SEL_TERMINATION_LOG": str(tmp_path / "termination-log"),
        "HF_HOME": str(tmp_path / "hub"),  # accelerate has a file of defaults there
    }

"""Tests exit statuses: 78 before a launcher starts, and each launcher's status for a program that fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from launchers.starting import SHOW, job, run

pytestmark = pytest.mark.torch

LAUNCHERS = ("torchrun", "accelerate", "deepspeed", "python")


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_a_missing_device_ends_it_before_its_launcher(env: dict[str, str], launcher: str) -> None:
    accelerator = {"type": "cuda", "devices": [5, 0]}
    done = run(job(SHOW, launcher=launcher, accelerator=accelerator), env)
    assert (done.returncode, done.stdout) == (78, "")
    (message,) = done.stderr.splitlines()  # and nothing of torch's
    assert "6 or more cuda devices expected, 4 found" in message


@pytest.mark.parametrize(("launcher", "status"), [("torchrun", 1), ("accelerate", 1), ("python", 3)])
def test_a_programs_own_status_is_lost_behind_an_agent(env: dict[str, str], launcher: str, status: int) -> None:
    """torch's agent makes 1 of every failure."""
    text = job("-c", "raise SystemExit(3)", launcher=launcher, accelerator={"type": "cuda", "count": 2})
    assert run(text, env).returncode == status


@pytest.mark.parametrize("launcher", ["torchrun", "deepspeed"])
def test_a_missing_torchrun_is_named(env: dict[str, str], tmp_path: Path, launcher: str, plain_python: str) -> None:
    text = job(SHOW, launcher=launcher, accelerator={"type": "cuda"})
    done = run(text, {**env, "PATH": str(tmp_path)}, plain_python)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"k8sel: torchrun is not on this machine's PATH, and launcher {launcher} needs it. "
        "Install it into this environment (pip install torch), or activate the one that has it.\n"
    )

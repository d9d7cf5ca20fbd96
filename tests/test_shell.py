"""Tests that a user's shell cannot change: what it exports does not reach them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import shell

ROOT = Path(__file__).parents[1]
HOSTILE = {
    "CUDA_VISIBLE_DEVICES": "3",
    "OMP_NUM_THREADS": "7",
    "RANK": "1",
    "MASTER_PORT": "1",
    "K8SEL_CHECK": "off",
    "KUBECONFIG": "/nowhere",
    "DOCKER_HOST": "tcp://127.0.0.1:1",
    "GIT_DIR": "/nowhere",
    "LC_ALL": "C",
    "LANG": "de_DE.UTF-8",
    "COLUMNS": "20",
    "NO_COLOR": "1",
    "PYTHONWARNINGS": "ignore",
}
CHOSEN = ("tests/planning/test_show.py", "tests/cli/test_run.py::test_the_exit_status_is_the_programs")


@pytest.mark.parametrize("name", HOSTILE)
def test_each_of_them_is_found(name: str) -> None:
    assert shell.strange({**os.environ, name: HOSTILE[name]}) == [name]


@pytest.mark.parametrize("name", ["K8SEL_TEST_CACHE", "K8SEL_REQUIRE_ALL", "PATH", "HOME", "SSL_CERT_FILE", "PIP_CERT"])
def test_what_tests_are_asked_by_stays(name: str) -> None:
    assert shell.strange({**os.environ, name: "1"}) == []


def test_tests_pass_in_a_hostile_shell(tmp_path: Path) -> None:
    temporary = tmp_path / "a folder"
    temporary.mkdir()
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:xdist", "-q", *CHOSEN]
    env = {**os.environ, **HOSTILE, "TMPDIR": str(temporary)}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert list(temporary.iterdir()) == []  # pytest's own folders neither

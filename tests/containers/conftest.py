"""The tests' own daemon, with the cluster's base image loaded, and k8sel's image built on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import unavailable

from cluster import machine
from containers import daemon
from containers.client import BASE, Docker

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def docker_daemon(fake_nvml: Path) -> Iterator[Docker]:
    """A real daemon, with Debian and Python in it as an image."""
    lacking = daemon.lacking()
    if lacking:
        unavailable(f"no Docker daemon: {lacking}")
    with machine.locked("up.lock"):
        try:
            machine.script("images")
        except RuntimeError as error:
            unavailable(f"no base image: {error}")
    # Not pytest's own folder: a socket's path is short (108 bytes), and a daemon's data is not kept.
    with (
        tempfile.TemporaryDirectory(prefix="k8sel-", ignore_cleanup_errors=True) as folder,
        daemon.running(Path(folder), fake_nvml) as address,
    ):
        docker = Docker(address, Path(folder, "hook"))
        for name in ("base", "nopython"):
            docker("load", "-qi", str(machine.CACHE / "images" / f"{name}.tar"))
        yield docker


@pytest.fixture(scope="session")
def image(docker_daemon: Docker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Dockerfile's entrypoint image."""
    context = tmp_path_factory.mktemp("context")
    shutil.copy(ROOT / "Dockerfile", context)
    shutil.copytree(ROOT / "k8sel", context / "k8sel", ignore=shutil.ignore_patterns("__pycache__"))
    docker_daemon("build", "-q", "--build-arg", f"BASE={BASE}", "--target", "entrypoint", "-t", "train", str(context))
    return "train"

"""The tests' own daemons, with the cluster's base image loaded, and k8sel's image built on it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conftest import unavailable

from cluster import machine
from containers import daemon, hosts
from containers.client import BASE, Docker

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def docker_daemon(fake_nvml: Path) -> Iterator[Docker]:
    """A real daemon, Debian's, with Debian and Python in it as an image."""
    with _running(fake_nvml, "dockerd", runtimes=("habana", "ascend")) as docker:
        yield docker


@pytest.fixture(scope="session")
def cdi_daemon(fake_nvml: Path, host: Path) -> Iterator[Docker]:
    """A newer one, which knows CDI, and takes the specs of the machine that ``host`` lays out."""
    _have("build", "dockerd")
    with _running(fake_nvml, str(machine.CACHE / "bin" / "dockerd"), f"--cdi-spec-dir={host}/etc/cdi") as docker:
        yield docker


@contextmanager
def _running(fake_nvml: Path, *words: str, runtimes: tuple[str, ...] = ()) -> Iterator[Docker]:
    lacking = daemon.lacking()
    if lacking:
        unavailable(f"no Docker daemon: {lacking}")
    _have("images")
    # Not pytest's own folder: a socket's path is short (108 bytes), and a daemon's data is not kept.
    with (
        tempfile.TemporaryDirectory(prefix="k8sel-", ignore_cleanup_errors=True) as folder,
        daemon.running(Path(folder), fake_nvml, *words, runtimes=runtimes) as address,
    ):
        docker = Docker(address, Path(folder, "hook"))
        for name in ("base", "nopython"):
            docker("load", "-qi", str(machine.CACHE / "images" / f"{name}.tar"))
        yield docker


def _have(*script: str) -> None:
    """Runs a script of the test cluster. If it fails, the tests cannot run."""
    with machine.locked("up.lock"):
        try:
            machine.script(*script)
        except RuntimeError as error:
            unavailable(f"{' '.join(script)}: {error}")


@pytest.fixture(scope="session")
def host(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine with devices of every vendor, below a folder."""
    root = tmp_path_factory.mktemp("host")
    hosts.lay_out(root)
    return root


@pytest.fixture(scope="session")
def image(docker_daemon: Docker, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The Dockerfile's entrypoint image."""
    context = tmp_path_factory.mktemp("context")
    shutil.copy(ROOT / "Dockerfile", context)
    shutil.copytree(ROOT / "k8sel", context / "k8sel", ignore=shutil.ignore_patterns("__pycache__"))
    docker_daemon("build", "-q", "--build-arg", f"BASE={BASE}", "--target", "entrypoint", "-t", "train", str(context))
    return "train"

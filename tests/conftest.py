"""Fixtures that stand for what a test needs of the machine: the cluster, its GPUs, torch, the fake driver.

What is missing skips the test and says how to install it; with K8SEL_REQUIRE_ALL=1 (in CI) it is a failure.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import hypothesis
import pytest
import shell

from cluster import machine
from cluster.client import Cluster, Images, await_

shell.settle()  # before any test module is imported: some keep a copy of the environment

NVML_SOURCE = Path(__file__).parent / "fakenvml" / "nvml.c"


def unavailable(reason: str) -> NoReturn:
    """Skips the test for this reason, or fails it where everything is required."""
    if machine.required():
        pytest.fail(f"required, and not there: {reason}", pytrace=False)
    pytest.skip(reason)


def pytest_configure() -> None:
    _settle_signals()
    hypothesis.settings.register_profile("k8sel", deadline=None)  # how busy the machine is, is not the question
    hypothesis.settings.load_profile("k8sel")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """One process more than there are processors: tests often wait for pods and programs."""
    return (os.cpu_count() or 1) + 1


def _settle_signals() -> None:
    """As a terminal leaves them: a shell starts what runs in the background with some of them ignored."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


def pytest_unconfigure(config: pytest.Config) -> None:
    """Waits for the cluster's end, in the process that outlives the others."""
    machine.leave()
    if not hasattr(config, "workerinput"):
        machine.await_end()


@pytest.fixture(scope="session")
def cluster() -> Cluster:
    """The test cluster, up and shared by the whole run; make a namespace in it for each test."""
    lacking = machine.lacking()
    if lacking:
        unavailable(f"no test cluster: {lacking}")
    machine.join()
    return Cluster(machine.RUN / "kubeconfig", Images())


@pytest.fixture
def alone() -> None:
    """No other test uses the cluster meanwhile: for those that stop a part of it."""


@pytest.fixture(autouse=True)
def _turn(request: pytest.FixtureRequest) -> Iterator[None]:
    """Keeps the tests that want to be alone apart from all others that use the cluster."""
    if "cluster" not in request.fixturenames:
        yield
        return
    with machine.locked("turn.lock", shared="alone" not in request.fixturenames):
        yield


@pytest.fixture
def namespace(cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own."""
    with cluster.namespace() as name:
        yield name


@pytest.fixture
def gpus(cluster: Cluster) -> Iterator[None]:
    """All eight fake GPUs are this test's alone, and free."""
    with machine.locked("gpus.lock"):
        await_(lambda: cluster.gpus_in_use() == 0, what="free GPUs")
        yield


@pytest.fixture(scope="session")
def plain_python(tmp_path_factory: pytest.TempPathFactory) -> str:
    """This Python in an environment of its own, with k8sel and no launcher or library of training beside it.

    What is beside a Python changes what k8sel checks and finds: `make demo` puts torch beside the tests' own.
    """
    folder = tmp_path_factory.mktemp("plain")
    venv.create(folder, symlinks=True)
    (site,) = folder.glob("lib/python3*/site-packages")
    (site / "own.pth").write_text(f"{sysconfig.get_path('purelib')}\n{Path(__file__).parents[1]}\n")
    return str(folder / "bin" / "python")


@pytest.fixture(scope="session")
def torch_env() -> dict[str, str]:
    """The environment in which this Python, its children and `torchrun` on PATH find torch."""
    if sys.version_info[:2] != (3, 11):
        unavailable("torch for the tests is built for Python 3.11: run them with python3.11")
    torch = _cached("torch")
    path = f"{torch / 'bin'}:{Path(sys.executable).parent}:{os.environ['PATH']}"  # Debian has no `python` of its own
    return {**os.environ, "PYTHONPATH": str(torch), "PATH": path}


@pytest.fixture(scope="session")
def accelerate() -> Path:
    """A folder with accelerate for Python 3.11; its bin/ has the program."""
    return _cached("launchers") / "accelerate"


@pytest.fixture(scope="session")
def deepspeed() -> Path:
    """A folder with deepspeed for Python 3.11; its bin/ has the program."""
    return _cached("launchers") / "deepspeed"


def _cached(name: str) -> Path:
    """The cache's folder of this name, which the script of the same name fills."""
    with machine.locked("up.lock"):
        try:
            machine.script(name)
        except RuntimeError as error:
            unavailable(f"no {name}: {error}")
    return machine.CACHE / name


@pytest.fixture(scope="session")
def mpis() -> Path:
    """The folder with a real Intel MPI, MPICH and Open MPI 5 and 4, each in a folder of its own: tests/cluster/mpi."""
    with machine.locked("up.lock"):
        try:
            machine.script("mpi")
        except RuntimeError as error:
            unavailable(f"no MPI: {error}")
    return machine.CACHE / "mpi"


@pytest.fixture(scope="session")
def fake_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The stand-in for NVIDIA's libnvidia-ml.so.1; its source says how it is told what to show."""
    return _library(NVML_SOURCE, tmp_path_factory.mktemp("fakenvml"))


@pytest.fixture(scope="session")
def recorded_nvml(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same library, with the answers that somebody recorded."""
    return _library(NVML_SOURCE.with_name("recorded.c"), tmp_path_factory.mktemp("recordednvml"))


def _library(source: Path, folder: Path) -> Path:
    compiler = shutil.which("cc")
    if not compiler:
        unavailable("no C compiler: apt-get install gcc libc6-dev")
    out = folder / "libnvidia-ml.so.1"
    strict = ["-std=c99", "-D_POSIX_C_SOURCE=200809L", "-O1", "-Wall", "-Wextra", "-Werror"]
    subprocess.run([compiler, *strict, "-shared", "-fPIC", "-o", out, source], check=True)
    return out

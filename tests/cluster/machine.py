"""The test cluster's lifetime: made on first use, shared by every process that tests, taken down after the last.

A process holds a shared lock on one file for as long as it lives. A reaper waits for the exclusive lock, which it
gets when the last holder is gone, however that ended, and takes the cluster down.
"""

from __future__ import annotations

import fcntl
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

SCRIPTS = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("K8SEL_TEST_CACHE") or Path.home() / ".cache" / "k8sel-testbed")
RUN = CACHE / "run"
NODE_ADDRESS = "10.99.0.1"
USERS = CACHE / "users.lock"
REAPED = CACHE / "reaped"  # exists while a reaper waits for the end of the cluster that is up


def required() -> bool:
    """Reports whether a test that cannot run is a failure, as in CI, and not a skip."""
    return os.environ.get("K8SEL_REQUIRE_ALL") == "1"


def lacking() -> str:
    """Names the parts for the cluster that this machine lacks, and how to install them; empty if it has all."""
    doctor = subprocess.run([SCRIPTS / "doctor"], capture_output=True, text=True, check=False)
    return "; ".join(doctor.stdout.splitlines())


@contextmanager
def locked(name: str, shared: bool = False) -> Iterator[None]:
    """Holds the named lock among all processes that test on this machine."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / name).open("w") as file:
        fcntl.flock(file, fcntl.LOCK_SH if shared else fcntl.LOCK_EX)
        yield


def script(name: str, *arguments: str) -> None:
    """Runs one of this folder's scripts; what it says ends up in the failure."""
    environment = {**os.environ, "PYTHON": sys.executable}
    done = subprocess.run(
        [SCRIPTS / name, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(f"tests/cluster/{name} failed ({done.returncode}):\n{done.stdout}{done.stderr}")


def prepare() -> None:
    """Makes whatever the cache does not have yet: minutes the first time, a second after that."""
    for step in ("build", "images", "torch"):
        script(step)


def up() -> bool:
    """Reports whether the cluster is up: its state is, and its API server accepts connections."""
    try:
        with socket.create_connection((NODE_ADDRESS, 6443), timeout=1):
            return (RUN / "ready").exists()
    except OSError:
        return False


_joined: list[IO[str]] = []  # the lock that says that this process uses the cluster


def join() -> None:
    """Brings the cluster up unless it is, and keeps it up until this process leaves it or ends."""
    CACHE.mkdir(parents=True, exist_ok=True)
    users = USERS.open("a")
    _joined.append(users)
    with locked("up.lock"):
        fcntl.flock(users, fcntl.LOCK_SH)  # waits for a reaper at work
        if not up():
            prepare()
            script("reaper")
        script("up")


def leave() -> None:
    """Says that this process does not use the cluster any more."""
    while _joined:
        _joined.pop().close()


def await_end(seconds: float = 60) -> None:
    """Waits until the cluster is down, unless other processes still use it, or a person keeps it."""
    end = time.monotonic() + seconds
    while REAPED.exists() and not _shared() and time.monotonic() < end:
        time.sleep(0.1)


def _shared() -> bool:
    """Reports whether other processes use the cluster. A reaper that works holds the lock alone, and does not count."""
    return not _lockable(fcntl.LOCK_EX) and _lockable(fcntl.LOCK_SH)


def _lockable(kind: int) -> bool:
    """Reports whether the lock is free."""
    with USERS.open("a") as file:
        try:
            fcntl.flock(file, kind | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

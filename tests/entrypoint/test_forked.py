"""A call in a child process: its answer, its error, its crash, its hang; never a process left behind."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from k8sel.entrypoint.discovery import forked

# pytest-xdist has threads; the entrypoint has none.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def children() -> set[str]:
    """This process's children, ended ones that nobody has waited for included."""
    stats = {path.parent.name: path for path in Path("/proc").glob("[0-9]*/stat")}
    return {pid for pid, path in stats.items() if _parent(path) == os.getpid()}


def _parent(stat: Path) -> int | None:
    try:
        return int(stat.read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended meanwhile
        return None


@pytest.fixture(autouse=True)
def _none_left() -> Iterator[None]:
    before = children()
    yield
    assert children() <= before


@pytest.mark.parametrize("size", [0, 1, 100, 1_000_000])
def test_an_answer_of_any_size(size: int) -> None:
    assert forked.call(lambda: "é" * size, 5) == "é" * size


def fail() -> str:
    raise OSError("the library is not there")


def crash() -> str:
    os.kill(os.getpid(), signal.SIGKILL)  # not SIGABRT: pytest would show its own stack
    return ""


def leave() -> str:
    os._exit(3)


def hang() -> str:
    time.sleep(30)
    return ""


@pytest.mark.parametrize(
    ("function", "seconds", "reason"),
    [
        (fail, 20, "the library is not there"),  # a busy machine may need a while to start the process
        (crash, 20, "it crashed (SIGKILL)"),
        (leave, 20, "it ended without an answer"),
        (hang, 0.2, "no answer in 0.2 s"),
    ],
)
def test_no_answer(function: Callable[[], str], seconds: float, reason: str) -> None:
    start = time.monotonic()
    with pytest.raises(forked.Failed) as failed:
        forked.call(function, seconds)
    assert str(failed.value) == reason
    assert time.monotonic() - start < 2

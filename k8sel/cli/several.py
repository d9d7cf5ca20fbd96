"""Runs one call for each of several jobs, within one time limit. After a failure it says what happened to each job."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from k8sel.errors import K8selError

Item = TypeVar("Item")
Result = TypeVar("Result")


class TimeUp(BaseException):
    """The time limit has passed. No handler of errors may keep it: not that of a library either."""


@contextmanager
def limit(seconds: float | None) -> Iterator[None]:
    """Raises TimeUp in this block after so many seconds, also while it waits for a server."""
    if seconds is None:
        yield
        return

    def up(*_: object) -> None:
        raise TimeUp

    before = signal.signal(signal.SIGALRM, up)
    signal.setitimer(signal.ITIMER_REAL, max(seconds, 0.001))  # 0 would mean: no limit
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


@dataclass(frozen=True, kw_only=True, slots=True)
class Words(Generic[Item]):
    """The words about the jobs of one command, and the command that goes on with the rest."""

    done: str  # applied, deleted
    missed: str  # not tried
    name: Callable[[Item], str]
    command: Callable[[Sequence[Item]], str]

    def report(self, items: Sequence[Item], at: int, state: str) -> str:
        """Returns the state of each job; ``state`` is that of the job at position ``at``."""
        names = [self.name(item) for item in items]
        states = [(self.done, names[:at]), (state, names[at : at + 1]), (self.missed, names[at + 1 :])]
        told = "; ".join(f"{state}: {', '.join(group)}" for state, group in states if group)
        return f"k8sel: {told}. Go on with: {self.command(items[at:])}"


def one_by_one(items: Sequence[Item], act: Callable[[Item], Result], words: Words[Item]) -> list[Result]:
    """The result of ``act`` for each job. Stops at the first failure: the others often fail for the same reason."""
    results: list[Result] = []
    for position, item in enumerate(items):
        try:
            results.append(act(item))
        except (K8selError, KeyboardInterrupt, TimeUp) as error:
            state = "failed" if isinstance(error, K8selError) else "not finished"
            _tell(error, words.report(items, position, state) if len(items) > 1 else "")
            raise
    return results


def _tell(error: BaseException, report: str) -> None:
    """Prints the report below the error's own line, which the command line prints where there is no report."""
    if isinstance(error, K8selError) and not report:
        return
    for line in filter(None, (*error.args, report)):
        print(line, file=sys.stderr)
    if isinstance(error, K8selError):
        sys.exit(error.exit_status)

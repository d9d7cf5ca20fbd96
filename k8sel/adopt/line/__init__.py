"""Converts a command line to a job file: torchrun, accelerate launch, deepspeed, mpirun, docker run or python.

Runs nothing, reads no file and expands only the variables that the text itself sets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from k8sel.adopt.line import ccl, dropped, finish, lexer, masks, programs, script
from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.finish import Options
from k8sel.adopt.line.shell import LONGEST_TEXT as MAX_BYTES
from k8sel.adopt.line.words import Word, excerpt
from k8sel.errors import Problem, SpecError

__all__ = ["MAX_BYTES", "LineError", "Options", "convert"]

_ODD = re.compile("[\0\ufffd\ud800-\udfff]")  # U+FFFD and lone surrogates stand for bytes that are not UTF-8


class LineError(SpecError):
    """Refusal of a command line: every reason, each with the text around its word."""

    def __init__(self, problems: Iterable[Problem], text: str) -> None:
        super().__init__(problems)
        lines = text.split("\n")
        shown = [f"{problem}{_around(problem, lines)}" for problem in self.problems]
        self.args = ("\n".join(shown),)


def convert(text: str, options: Options) -> tuple[str, list[Problem]]:
    """Returns the job file for ``text``, and notes on the differences. Raises LineError with every reason."""
    draft = Draft(text=text, file=options.file)
    try:
        _read(draft)
        if not draft.command:
            _stop(draft)
        written = finish.written(draft, masks.settle(draft, options.accelerator), options)
    except lexer.NotRead as error:
        draft.refuse(Word(text="", start=error.start, end=error.start), error.message, error.hint)
    _stop(draft)
    return written, sorted(draft.notes, key=_place)


def _read(draft: Draft) -> None:
    """Reads everything that the text itself determines."""
    if len(draft.text.encode("utf-8", "replace")) > MAX_BYTES:
        message = f"the command line has more than {MAX_BYTES} bytes"
        draft.refuse(Word(text="", start=0, end=0), message, "give the lines that start the training")
        return
    odd = _ODD.search(draft.text)
    if odd:
        what = "a zero byte" if odd[0] == "\0" else "a byte that is not UTF-8"
        draft.refuse(Word(text="", start=odd.start(), end=odd.end()), f"the line contains {what}", "remove it")
        return
    found = script.read(draft)
    draft.env = dict(found.env)
    if found.started:
        programs.read(draft, found.started)
        dropped.look(draft)
        ccl.look(draft)
        finish.check_words(draft)
    elif not draft.problems:
        place = Word(text="", start=0, end=0)
        draft.refuse(
            place,
            "nothing here starts a training",
            "give a training command, for example torchrun --nproc_per_node=2 train.py",
        )


def _stop(draft: Draft) -> None:
    if draft.problems:
        raise LineError(sorted(draft.problems, key=_place), draft.text)


def _place(problem: Problem) -> tuple[int, int]:
    return (problem.location.line, problem.location.column) if problem.location else (0, 0)


def _around(problem: Problem, lines: Sequence[str]) -> str:
    return f"\n{excerpt(lines, problem.location)}" if problem.location else ""

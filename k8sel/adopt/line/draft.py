"""The draft of a job file: its fields, the word that each comes from, its problems and notes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from k8sel.adopt.line.words import Word, locate
from k8sel.errors import FieldPath, Kind, Location, Problem
from k8sel.wording import quote

_NUMBER = re.compile(r"[0-9]{1,9}")
FILLED_IN_BY_A_SHELL = "only the shell that runs the line knows {}, and a job file has no shell"


@dataclass
class Draft:
    """A job file in the making, with its problems and notes."""

    text: str
    file: str
    env: dict[str, Word] = field(default_factory=dict)  # the program's variables
    read_elsewhere: list[dict[str, Any]] = field(default_factory=list)  # variables with a valueFrom
    group: tuple[int, int] | None = None  # nodes and ranks of each, where a manifest gives them
    in_container: bool = False  # after `docker run`: the container has no other devices
    fields: dict[FieldPath, Any] = field(default_factory=dict)
    sources: dict[FieldPath, Word] = field(default_factory=dict)  # field -> the word that sets it
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    shells: int = 0  # that start each other, as in `bash -c "sh -c ..."`
    launcher: str = "python"
    command: list[Word] = field(default_factory=list)
    processes: int | None = None  # of one node; None: one for each device
    processes_word: Word | None = None
    without_number: str = ""  # what the launcher does without a number of processes
    replaces_masks: str = ""  # the launcher's option that replaces every mask
    selection: Word | None = None  # its value, where that is a list of devices
    sorts: str = ""  # why the launcher does not keep the order of devices
    exposed: tuple[int, ...] | None = None  # the host's devices in the container; None: not given
    exposed_count: int | None = None
    binds: dict[str, tuple[Word, Word]] = field(default_factory=dict)  # mpirun's binding options: option and value
    sourced: list[tuple[str, Word]] = field(default_factory=list)  # scripts that the line sources
    serves: tuple[str, ...] = ()  # rows that the backend connects
    row_hints: dict[str, Word] = field(
        default_factory=dict
    )  # row of the accelerator table -> the word that suggests it

    @property
    def implementation(self) -> str:
        """The name of the MPI; from a manifest, it may be any text."""
        return str(self.fields.get(("spec", "mpi", "implementation"), ""))

    @property
    def nodes(self) -> int:
        """The number of the job's nodes."""
        return int(self.fields.get(("spec", "nodes"), 1))

    def put(self, path: FieldPath, value: object, word: Word) -> None:
        """Sets the field ``path`` to ``value``, which comes from ``word``."""
        self.fields[path] = value
        self.sources[path] = word

    def refuse(self, word: Word, message: str, hint: str = "", kind: Kind = Kind.INVALID) -> None:
        """Adds a problem, for which there is no job file."""
        self.problems.append(self._remark(kind, word, message, hint))

    def warn(self, word: Word, message: str, hint: str = "") -> None:
        """Adds a warning: the line does not do what it looks like."""
        self.notes.append(self._remark(Kind.WARNING, word, message, hint))

    def note(self, word: Word, message: str, hint: str = "") -> None:
        """Adds a note on something that the job file leaves out."""
        self.notes.append(self._remark(Kind.NOTE, word, message, hint))

    def known(self, word: Word) -> bool:
        """Reports whether all of ``word`` is known; refuses it if not."""
        if not word.unknown:
            return True
        missing = word.unknown[0]
        self.refuse(word, FILLED_IN_BY_A_SHELL.format(quote(missing)), hint_for(missing))
        return False

    def number(self, word: Word, what: str, *, least: int = 1) -> int | None:
        """Returns ``word`` as a whole number; refuses it and returns None if it is not one."""
        if not self.known(word):
            return None
        if _NUMBER.fullmatch(word.text) and int(word.text) >= least:
            return int(word.text)
        self.refuse(
            word, f"{what} is {quote(word.text)}, not a number of at least {least}", f"write {what} 2, for example"
        )
        return None

    def _remark(self, kind: Kind, word: Word, message: str, hint: str) -> Problem:
        return Problem(kind=kind, path=(), message=message, hint=hint, location=self.located(word))

    def located(self, word: Word) -> Location:
        """Returns the place of ``word`` in the file."""
        return locate(self.text, word.start, self.file)


def hint_for(missing: str) -> str:
    """Returns the hint on a part that is not known."""
    name = re.fullmatch(r"\$\{?([A-Za-z_]\w*)\}?", missing)
    if name:
        return f"put {name[1]}=VALUE in a line above, or write the value itself"
    if missing in ("$@", "$*"):
        return "write the script's arguments themselves, or leave it out"
    return "write what it stands for"

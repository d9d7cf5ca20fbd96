"""What a command line has said so far: the job file's fields, where each is from, and what there is to say about it."""

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
    """A job file in the making, and the remarks on its way."""

    text: str
    file: str
    env: dict[str, Word] = field(default_factory=dict)  # variables of the program, with their values
    read_elsewhere: list[dict[str, Any]] = field(default_factory=list)  # variables with a valueFrom
    group: tuple[int, int] | None = None  # nodes and ranks of each, where something beside the line says them
    in_container: bool = False  # behind `docker run`: its devices are all there are
    fields: dict[FieldPath, Any] = field(default_factory=dict)
    sources: dict[FieldPath, Word] = field(default_factory=dict)  # field -> the word that says it
    problems: list[Problem] = field(default_factory=list)
    notes: list[Problem] = field(default_factory=list)
    launcher: str = "python"
    command: list[Word] = field(default_factory=list)
    nodes: int = 1
    processes: int | None = None  # of one node; None: one for each device
    processes_word: Word | None = None
    without_number: str = ""  # what the launcher does when it is not told a number of processes
    replaces_masks: str = ""  # the launcher's option that counts instead of every mask
    selection: Word | None = None  # its value, where that is a list of devices
    sorts: str = ""  # why the launcher does not keep the order of devices
    exposed: tuple[int, ...] | None = None  # the host's devices in the container; None: nothing says which
    exposed_count: int | None = None
    binds: dict[str, tuple[Word, Word]] = field(default_factory=dict)  # what mpirun is to bind to: option and value
    sourced: list[tuple[str, Word]] = field(default_factory=list)  # scripts that the shell reads first
    serves: tuple[str, ...] = ()  # rows that the backend connects
    row_hints: dict[str, Word] = field(default_factory=dict)  # row of the accelerator table -> what speaks for it

    @property
    def implementation(self) -> str:
        """Which MPI this is; what a manifest says may be anything."""
        return str(self.fields.get(("spec", "mpi", "implementation"), ""))

    def put(self, path: FieldPath, value: object, word: Word) -> None:
        """``word`` says that the field ``path`` is ``value``."""
        self.fields[path] = value
        self.sources[path] = word

    def refuse(self, word: Word, message: str, hint: str = "", kind: Kind = Kind.INVALID) -> None:
        """Something for which there is no job file."""
        self.problems.append(self._remark(kind, word, message, hint))

    def warn(self, word: Word, message: str, hint: str = "") -> None:
        """Something that is not what it looks like."""
        self.notes.append(self._remark(Kind.WARNING, word, message, hint))

    def note(self, word: Word, message: str, hint: str = "") -> None:
        """Something that the job file does not say."""
        self.notes.append(self._remark(Kind.NOTE, word, message, hint))

    def known(self, word: Word) -> bool:
        """Whether all of ``word`` is known; if not, it is refused."""
        if not word.unknown:
            return True
        missing = word.unknown[0]
        self.refuse(word, FILLED_IN_BY_A_SHELL.format(quote(missing)), how_to_say(missing))
        return False

    def number(self, word: Word, what: str, *, least: int = 1) -> int | None:
        """``word`` as a whole number; None where it is refused."""
        if not self.known(word):
            return None
        if _NUMBER.fullmatch(word.text) and int(word.text) >= least:
            return int(word.text)
        self.refuse(word, f"{what} is {quote(word.text)}, not a number from {least} on", f"{what} 2, for example")
        return None

    def _remark(self, kind: Kind, word: Word, message: str, hint: str) -> Problem:
        return Problem(kind=kind, path=(), message=message, hint=hint, location=self.located(word))

    def located(self, word: Word) -> Location:
        """The place of ``word``."""
        return locate(self.text, word.start, self.file)


def how_to_say(missing: str) -> str:
    """What to do about a part that is not known."""
    name = re.fullmatch(r"\$\{?([A-Za-z_]\w*)\}?", missing)
    if name:
        return f"put {name[1]}=VALUE in a line above, or write the value itself"
    if missing in ("$@", "$*"):
        return "write the script's arguments themselves, or leave it out"
    return "write what it stands for"

"""The errors of k8sel and their text. Knows no file format, no vendor and no cluster.

K8selError            shown to the user as it is, never as a traceback
├── SpecError         the job file or an option is wrong: exit status 2, all problems at once
├── ClusterError      the cluster refused or could not be reached: exit status 1
├── ContainersError   the container daemon refused or could not be reached: exit status 1
└── LocalError        this machine cannot run the job: exit status 1
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from msgspec import Struct

FieldPath = tuple[str | int, ...]
LONGEST_PATH = 1000  # characters: a key may have a million, and each problem below it shows it


class Kind(str, Enum):
    """The kind of a problem, by the names of apimachinery's field.ErrorType."""

    REQUIRED = "required"
    INVALID = "invalid"
    NOT_SUPPORTED = "not supported"
    FORBIDDEN = "forbidden"
    DUPLICATE = "duplicate"
    UNKNOWN = "unknown field"
    SYNTAX = "syntax"
    WARNING = "warning"
    NOTE = "note"  # a decision that k8sel made for the user


class Location(Struct, frozen=True, kw_only=True):
    """A place in a text file; line and column count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


class Problem(Struct, frozen=True, kw_only=True):
    """One problem: its field, the value found, the values allowed, and a hint."""

    kind: Kind
    path: FieldPath
    message: str
    hint: str = ""
    location: Location | None = None

    def __str__(self) -> str:
        place = f"{self.location}: " if self.location else ""
        field = f"{format_path(self.path)}: " if self.path else ""
        hint = f" Hint: {self.hint}" if self.hint else ""
        return f"{place}{field}{self.kind.value}: {self.message}.{hint}"


def format_path(path: FieldPath) -> str:
    """``("spec", "env", 0, "name")`` as ``spec.env[0].name``."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    if len(text) > LONGEST_PATH:
        text = f"{text[:LONGEST_PATH]}..."
    return text if text.isprintable() else ascii(text)[1:-1]  # a key can contain control characters


class K8selError(Exception):
    """A failure to show to the user; its text is the whole message."""

    exit_status = 1


class SpecError(K8selError):
    """The job file or an option is wrong; ``problems`` has every problem."""

    exit_status = 2

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


class ClusterError(K8selError):
    """The cluster refused, or could not be reached."""


class ContainersError(K8selError):
    """The container daemon refused, or could not be reached."""


class LocalError(K8selError):
    """This machine cannot run the job."""

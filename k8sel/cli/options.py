"""The common parts of the commands: option types, reading job files, warnings. Prints to standard error only."""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from msgspec.structs import replace

from k8sel.errors import Kind, Location, Problem, SpecError
from k8sel.jobfile.limits import MAX_BYTES
from k8sel.wording import bare, did_you_mean, duplicate, not_supported

if TYPE_CHECKING:
    from k8sel.jobfile.load import Job
    from k8sel.planning.plan import JobPlan

Parsed = TypeVar("Parsed")
Files = Annotated[list[str], typer.Argument(help="Job files; - is standard input.", metavar="FILE...")]
File = Annotated[str, typer.Argument(help="Job file; - is standard input.", metavar="FILE")]
Nodes = Annotated[
    int | None, typer.Option(min=1, help="Use this many nodes instead of the file's; 1 fits one machine.")
]
Namespace = Annotated[str | None, typer.Option("-n", "--namespace", help="Default: the file's, or the context's.")]
Context = Annotated[str | None, typer.Option(help="The kubeconfig's context; default: its current one.")]
Quiet = Annotated[bool, typer.Option("-q", "--quiet", help="Print no warnings and no progress.")]
_TOO_LARGE = "give a part of it, or another file"
_READ_HINTS = {
    errno.ENOENT: "run `k8sel init` to write a starter file",
    errno.EISDIR: "name the files in it",
    errno.EACCES: "ask its owner for the right to read it, or copy it",
}


def plans(
    jobs: Iterable[Job], quiet: bool, *, platform: str = "kubernetes", nodes: int | None = None
) -> Iterator[JobPlan]:
    """The plan of each job. Prints its warnings."""
    from k8sel import api

    for job in jobs:
        job_plan = api.plan(job, platform, nodes=nodes)
        warn(job_plan.warnings, quiet)
        yield job_plan


def read(files: Sequence[str]) -> list[Job]:
    """The jobs of all files. Raises the problems of all files together."""
    from k8sel.jobfile.load import load

    return [job for jobs in parsed(files, load, _same_names) for job in jobs]


def parsed(
    files: Iterable[str],
    parse: Callable[[bytes, str], Parsed],
    judge: Callable[[list[Parsed]], Iterable[Problem]] = lambda _: (),
    *,
    what: str = "a job file",
) -> list[Parsed]:
    """The result of ``parse`` for each file. Raises the problems of all files, and those that ``judge`` finds.

    ``what`` each file is, for the message about a file that is too large.
    """
    found: list[Parsed] = []
    problems: list[Problem] = []
    for file in files:
        try:
            found.append(parse(text(file, what=what), shown(file)))
        except SpecError as error:
            problems += error.problems
    problems += judge(found)
    if problems:
        raise SpecError(problems)
    return found


def shown(file: str) -> str:
    """The name of ``file`` in messages."""
    return "<stdin>" if file == "-" else file


def _same_names(files: Iterable[Iterable[Job]]) -> Iterator[Problem]:
    """Refuses two jobs with the same name and namespace."""
    seen: dict[tuple[str | None, str], Job] = {}
    path = ("metadata", "name")
    for job in (job for jobs in files for job in jobs):
        metadata = job.file.metadata
        first = seen.setdefault((metadata.namespace, metadata.name), job)
        if first is not job:
            yield _twice(first.document.locate(path), job.document.locate(path), metadata.name)


def _twice(first: Location, second: Location, name: str) -> Problem:
    if first == second:
        message, hint = "this file is given twice", "give it once"
    else:
        message, hint = f"the job at {first} is also called {name}", "use another name"
    return replace(duplicate(("metadata", "name"), message, hint), location=second)


def text(file: str, *, what: str = "a job file", most: int = MAX_BYTES) -> bytes:
    """The content of ``file``; - is standard input. ``what`` it is has at most ``most`` bytes: no more is read."""
    with opened(file) as stream:
        found = stream.read(most + 1)
    if len(found) > most:
        raise usage(f"{shown(file)} has more than {most} bytes, and {what} has at most {most}", _TOO_LARGE)
    return found


@contextmanager
def opened(file: str, absent: str = _READ_HINTS[errno.ENOENT]) -> Iterator[IO[bytes]]:
    """Opens ``file``; - is standard input. ``absent``: the hint for a missing file."""
    if file == "-":
        yield _standard_input()
        return
    try:
        with Path(file).open("rb") as stream:
            yield stream
    except OSError as error:
        hints = {**_READ_HINTS, errno.ENOENT: absent}
        hint = _nearest_file(file) or hints.get(error.errno or 0, "name a file that can be read")
        raise usage(f"{bare(file)} cannot be read: {error.strerror}", hint) from None


def _nearest_file(file: str) -> str:
    """A hint with the nearest file name in the same folder."""
    path = Path(file)
    if path.exists() or not path.parent.is_dir():
        return ""
    near = did_you_mean(path.name, [each.name for each in path.parent.iterdir() if each.suffix in (".yaml", ".yml")])
    return near.replace("did you mean ", f"did you mean {path.parent}/" if path.parent.name else "did you mean ")


def _standard_input() -> IO[bytes]:
    if sys.stdin is None:
        raise usage("standard input is closed", "name a file, or use `k8sel ... - < FILE`")
    return sys.stdin.buffer


def choice(option: str, value: str, allowed: tuple[str, ...]) -> None:
    """Refuses a value that is none of ``allowed``."""
    if value not in allowed:
        raise SpecError([not_supported((option,), value, allowed, did_you_mean(value, allowed))])


def type_choice(option: str, value: str, *others: str) -> None:
    """Refuses a value that is neither a type of accelerator nor one of ``others``."""
    from k8sel.facts.accelerators import ROWS
    from k8sel.jobfile.rules.devices import type_meant

    if value not in (*others, *ROWS):
        raise SpecError([not_supported((option,), value, (*others, *ROWS), type_meant(value, tuple(ROWS)))])


def completed(*words: str) -> Callable[[str], list[str]]:
    """Makes the function that completes an option's value in a shell."""
    return lambda incomplete: [word for word in words if word.startswith(incomplete)]


def formats(*words: str) -> Any:  # noqa: ANN401  # the type that typer gives its options
    """The option for the form of the output: one of ``words``."""
    *others, last = words
    named = f"{', '.join(others)} or {last}."
    return typer.Option("-o", "--output", help=named, autocompletion=completed(*words))


def rows(incomplete: str) -> list[str]:
    """Completes the name of a row of the accelerator table."""
    from k8sel.facts.accelerators import ROWS

    return completed(*ROWS)(incomplete)


def write_new(file: Path, made: str, command: str) -> None:
    """Writes a file that does not exist yet; ``command`` is k8sel's, up to the name of the file."""
    try:
        with file.open("x", encoding="utf-8") as opened:
            opened.write(made)
    except FileExistsError:
        raise usage(f"{file} exists already", f"use k8sel {command} OTHER.yaml, or remove {file}") from None
    except OSError as error:
        raise usage(f"{file} cannot be written: {error.strerror}", "name another file") from None


def usage(message: str, hint: str) -> SpecError:
    """The error for a wrong call, without a field of a file."""
    return SpecError([Problem(kind=Kind.INVALID, path=(), message=message, hint=hint)])


def warn(problems: Iterable[Problem], quiet: bool) -> None:
    """Prints warnings unless ``quiet``."""
    for problem in problems if not quiet else ():
        print(problem, file=sys.stderr)

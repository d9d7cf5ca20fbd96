"""Writes the generated parts of docs/cpu.md: the commands of its jobs, and its tables. generate.py calls it."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator

from k8sel.facts.backends import BACKENDS, Backend
from k8sel.facts.launchers import LAUNCHERS, MPIS

BEGIN, END = "<!-- generated from here -->\n", "<!-- to here -->\n"
JOB = re.compile(f"(```yaml\n(apiVersion.*?)```\n\n```sh\nk8sel (.*?) job.yaml\n```\n\n{BEGIN}).*?({END})", re.DOTALL)
TABLE = "<!-- {} from here -->\n"


def filled(page: str) -> str:
    """The page, with all that is generated in it made anew."""
    shown = JOB.sub(lambda found: f"{found[1]}```text\n{_ran(found[3], found[2])}```\n{found[4]}", page)
    for name, table in (("bindings", _bindings()), ("backends", _backends()), ("launchers", _launchers())):
        before, begin, rest = shown.partition(TABLE.format(name))
        shown = f"{before}{begin}{_lines(table)}{END}{rest.partition(END)[2]}"
    return shown


def _ran(options: str, job: str) -> str:
    """Returns the output of a command without the expectation, with long lines folded."""
    command = [sys.executable, "-m", "k8sel", *shlex.split(options), "--quiet", "-"]
    shown = subprocess.run(command, input=job, capture_output=True, text=True, check=True).stdout
    short = re.sub(r"'K8SEL_EXPECT=[^']*'", "K8SEL_EXPECT=...", shown)
    return "".join(f"{_folded(line)}\n" for line in short.splitlines())


def _folded(line: str) -> str:
    return (
        " \\\n  ".join(textwrap.wrap(line, 110, break_long_words=False, break_on_hyphens=False)) if line[110:] else line
    )


def _lines(table: Iterable[Iterable[str]]) -> str:
    head, *rows = [f"| {' | '.join(row)} |\n" for row in table]
    return f"{head}|{'---|' * (head.count(' | ') + 1)}\n{''.join(rows)}"


def _bindings() -> Iterator[list[str]]:
    """mpi.json's words."""
    yield ["binding", *MPIS]
    words = next(iter(MPIS.values())).binding
    for name in words:
        said = [" ".join(word.format(per_node=2, cores=24) for word in mpi.binding[name]) for mpi in MPIS.values()]
        yield [f"`{name}`" if name else "not given", *(f"`{each}`" for each in said)]


def _backends() -> Iterator[list[str]]:
    """backends.json, as far as a job on CPUs, or with oneCCL, can have it."""
    yield ["backend", "connects", "started by", "in the image"]
    for name, row in BACKENDS.items():
        if row.connects("cpu") or row.oneccl:
            kinds = ", ".join(row.accelerators) or "every type"
            yield [
                f"`{name}`",
                kinds,
                ", ".join(row.launchers) or "any launcher",
                "; ".join(_needs(row)) or "any torch",
            ]


def _needs(row: Backend) -> Iterator[str]:
    if row.built:
        yield f"torch built for {' or '.join(row.built)}"
    if row.linked:
        yield f"torch built with MPI ({row.linked}), which the published ones are not"
    if row.bindings:
        yield f"{row.bindings}, of torch's own version"
    yield from (f"{package} {version} or newer" for package, version in row.since.items())
    yield from (f"{package} {version} or older" for package, version in row.until.items())


def _launchers() -> Iterator[list[str]]:
    """Yields a row for each MPI and launcher: its variables for oneCCL."""
    names = ("CCL_PROCESS_LAUNCHER", "CCL_ATL_TRANSPORT")
    yield ["started by", *names]
    started = {name: row.ccl for name, row in LAUNCHERS.items() if row.ccl}
    for name, ccl in {**{f"mpirun, {name}": mpi.ccl for name, mpi in MPIS.items()}, **started}.items():
        yield [name, *(f"`{ccl[each]}`" for each in names)]

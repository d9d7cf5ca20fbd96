"""Writes the generated parts of docs/guide.md: what each command line becomes, and the table. generate.py calls it."""

from __future__ import annotations

import re
import shlex
import textwrap
from typing import NamedTuple

from k8sel import api
from k8sel.adopt.line import LineError, Options, convert
from k8sel.entrypoint.protocol import VARIABLE
from k8sel.errors import Kind, Problem
from k8sel.jobfile.defaults import default
from k8sel.jobfile.load import load
from k8sel.machine import processes
from k8sel.planning.plan import JobPlan

BEGIN, END = "<!-- generated from here -->\n", "<!-- to here -->\n"
OVERVIEW = "<!-- overview from here -->\n"
COMMAND = re.compile(f"### ([^\n]+)\n\n```sh\n(.*?)```\n\n{BEGIN}.*?{END}", re.DOTALL)
HEAD = """| command | line | nodes x processes | masks of the processes | warnings |
|---|---|---|---|---|
"""


class Carried(NamedTuple):
    """The conversion of a command line: its job file, its plan on one machine, and the problems."""

    made: str
    nodes: int
    plan: JobPlan
    said: list[Problem]


def filled(page: str) -> str:
    """Returns the page with each conversion below its line, and the table of all at the top."""
    before, _, rest = COMMAND.sub(_below, page).partition(OVERVIEW)
    table = "".join(_row(*each) for each in COMMAND.findall(page))
    return f"{before}{OVERVIEW}{HEAD}{table}{END}{rest.partition(END)[2]}"


def _carried(text: str) -> Carried | LineError:
    try:
        made, notes = convert(text, Options(file="<stdin>", image="app:1"))
    except LineError as error:
        return error
    (job,) = load(made.encode(), "job.yaml")
    plan = api.plan(job, "run", nodes=1)
    return Carried(made=made, nodes=default(job.file).spec.nodes, plan=plan, said=[*notes, *plan.warnings])


def _below(found: re.Match[str]) -> str:
    became = _carried(found[2])
    shown = _refused(became) if isinstance(became, LineError) else _taken(became)
    return f"### {found[1]}\n\n```sh\n{found[2]}```\n\n{BEGIN}{shown}{END}"


def _refused(error: LineError) -> str:
    return f"Refused:\n\n```text\n{error}\n```\n"


def _taken(became: Carried) -> str:
    said = "".join(f"{problem}\n" for problem in became.said)
    return (
        f"The job file:\n\n```yaml\n{became.made}```\n\nWhat it starts:\n\n```text\n{_started(became.plan)}\n```\n"
        + (f"\nWhat is said:\n\n```text\n{said}```\n" if said else "")
    )


def _started(plan: JobPlan) -> str:
    """Returns the line of `k8sel run --print`, folded for the page, without the value of the expectation."""
    line = str(processes.command(plan, override_env=True, started=False, environ={}))
    words = [f"{VARIABLE}=..." if word.startswith(f"{VARIABLE}=") else word for word in shlex.split(line)]
    folded = textwrap.wrap(shlex.join(words), 110, break_long_words=False, break_on_hyphens=False)
    return " \\\n  ".join(folded)


def _row(title: str, text: str) -> str:
    """Returns a command's row of the table: a link to it, its beginning, and what it starts."""
    address = re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")  # as GitHub makes it
    lines = "; ".join(text.replace("\\\n", "").splitlines())
    begins = textwrap.shorten(lines, 100, placeholder=" ...")
    return f"| [{title}](#{address}) | `{begins}` | {_sum(_carried(text))} |\n"


def _sum(became: Carried | LineError) -> str:
    if isinstance(became, LineError):
        return "refused | | "
    masks = " ".join(f"{name}={value}" for name, value in became.plan.devices.mask_env.items())
    warnings = sum(problem.kind is Kind.WARNING for problem in became.said)
    return f"{became.nodes} x {became.plan.processes_per_node} | `{masks}` | {warnings or '-'}"

"""Shows plans as a table on a terminal, as plain columns in a pipe, or as JSON. Decides nothing."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from k8sel.cli.streams import BOLD, NORMAL
from k8sel.entrypoint.report import plain
from k8sel.facts.backends import VARIABLES
from k8sel.facts.platforms import KUBERNETES, Platform
from k8sel.jobfile.rules.surprises import is_secret
from k8sel.planning.env import Reference
from k8sel.wording import one_line

if TYPE_CHECKING:
    from k8sel.planning.plan import JobPlan, Node, Rank

BINDINGS = {
    "none": "no process is bound to a part of the machine",
    "socket": "each process to a CPU socket, in turn",
    "numa": "each process to a NUMA node, in turn",
    "core": "each process to cores of its own",
}
MOST_ROWS, FIRST, LAST = 64, 16, 8  # of a table of processes; the first and the last of a longer one
GAP = ("...",) * 6
PLAN_HEADER = ("NODE", "RANK", "LOCAL RANK", "DEVICE", "MASK", "THREADS")


def plan(job_plan: JobPlan, output: str, platform: Platform = KUBERNETES) -> None:
    """Prints ``job_plan``, made for ``platform``, as `table` or `json`."""
    if output == "json":
        print(plan_json(job_plan))
        return
    print(headline(job_plan, platform))
    lines = [row(job_plan, node, rank) for node in job_plan.nodes for rank in node.ranks]
    table(PLAN_HEADER, lines if len(lines) <= MOST_ROWS else [*lines[:FIRST], GAP, *lines[-LAST:]])
    if len(lines) > MOST_ROWS:
        print(f"{FIRST + LAST} of {len(lines)} processes are shown: `k8sel plan -o json` has all")
    for line in communication(job_plan):
        print(line)
    print("command: " + command(job_plan.launch))


def communication(job_plan: JobPlan) -> Iterator[str]:
    """The lines about the backend and the CPU binding, if the job sets them."""
    if job_plan.expectation.backend:
        variables = " ".join(f"{name}={_quoted(value)}" for name, value in _oneccl(job_plan).items())
        yield f"backend: {job_plan.expectation.backend}{f', by oneCCL: {variables}' if variables else ''}"
    if job_plan.mpi and job_plan.mpi.binding:
        yield f"binding: {BINDINGS[job_plan.mpi.binding]}"


def _oneccl(job_plan: JobPlan) -> dict[str, str]:
    """oneCCL's variables as the processes get them."""
    entries = {entry["name"]: entry.get("value", "(valueFrom)") for entry in job_plan.env}
    return {name: entries[name] for name in job_plan.oneccl}


def headline(job_plan: JobPlan, platform: Platform) -> str:
    """The line above the table: target, nodes, processes, launcher and devices."""
    devices = job_plan.devices
    what = platform.place or job_plan.target
    asks = f"{devices.count} x {devices.resource_name or devices.type} a node" if devices.count else "no device"
    if platform.exposes and devices.exposed and len(job_plan.nodes) == 1:
        asks += f" (the host's {', '.join(map(str, devices.exposed))})"
    return (
        f"{job_plan.name}: {what}, {len(job_plan.nodes)} x {job_plan.processes_per_node} processes"
        f" by {job_plan.launcher}, {asks}"
    )


def command(words: Iterable[str]) -> str:
    """A line to paste into a shell of the container. References that Kubernetes resolves stay unquoted."""
    return " ".join(word if isinstance(word, Reference) else _quoted(word) for word in words)


def _quoted(word: str) -> str:
    """Quotes a word for a shell; uses double quotes where they are easier to read."""
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)


def row(job_plan: JobPlan, node: Node, rank: Rank) -> tuple[str, ...]:
    """One rank's line of the table."""
    device = "-" if rank.device is None else str(rank.device)
    mask = ",".join(map(str, rank.devices)) or "none"
    return (node.name, str(rank.rank), str(rank.local_rank), device, mask, threads(job_plan))


def threads(job_plan: JobPlan) -> str:
    """The threads of one process, or the rule that the entrypoint counts them by."""
    workers = _oneccl(job_plan).get(VARIABLES["workers"])
    counted = f"from the node's cores{f', less {workers} of oneCCL' if workers else ''}"
    return str(job_plan.expectation.threads_per_process or counted)


def plan_json(job_plan: JobPlan) -> str:
    """Returns the whole plan as JSON. The expectation is as the entrypoint gets it, a warning as its text."""
    from msgspec import to_builtins

    fields = to_builtins(job_plan, enc_hook=str)
    fields["expectation"] = json.loads(job_plan.expectation.to_json())
    fields["env"] = [_without_secret(entry) for entry in fields["env"]]
    fields["warnings"] = [str(warning) for warning in job_plan.warnings]
    return json.dumps(fields, indent=2, sort_keys=True)


def _without_secret(entry: dict[str, str]) -> dict[str, str]:
    """Returns a variable; a value that looks like a secret is hidden, since plans are pasted into reports."""
    hidden = is_secret(entry["name"], entry.get("value", ""))
    return {**entry, "value": "(hidden: it looks like a secret)"} if hidden else entry


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints aligned columns: by rich on a terminal, plain in a pipe."""
    lines = [tuple(map(one_line, line)) for line in rows]
    if sys.stdout.isatty():
        _rich_table(header, lines)
        return
    widths = [max(len(line[column]) for line in (tuple(header), *lines)) for column in range(len(header))]
    for line in (tuple(header), *lines):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def bold(text: str) -> str:
    """``text`` in bold on a terminal; unchanged in a pipe or with NO_COLOR."""
    return f"{BOLD}{plain(text)}{NORMAL}" if sys.stdout.isatty() and not os.environ.get("NO_COLOR") else text


def _rich_table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> None:
    """Prints whole names on a narrow terminal too, as kubectl does. Only the last column wraps."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, header_style="bold", pad_edge=False, padding=(0, 2, 0, 0))
    *widths, last = [max(map(len, column)) for column in zip(header, *lines, strict=True)]
    widths.append(min(last, 20))
    for name, width in zip(header, widths, strict=True):
        drawn.add_column(name, min_width=width, overflow="fold")
    for line in lines:
        drawn.add_row(*map(Text, line))
    console = Console()
    console.print(drawn, width=max(console.width, sum(widths) + 2 * len(widths)), crop=False)

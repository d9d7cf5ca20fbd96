"""Plans as a person reads them: a table on a terminal, plain columns when piped, or JSON. Decides nothing."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from k8sel.plan import JobPlan, Node, Rank

PLAN_HEADER = ("NODE", "RANK", "LOCAL RANK", "DEVICE", "MASK", "THREADS")


def plan(job_plan: JobPlan, output: str, door: str = "kubernetes") -> None:
    """Prints ``job_plan``, made for ``door``, as `table` or `json`."""
    if output == "json":
        print(plan_json(job_plan))
        return
    print(headline(job_plan, door))
    table(PLAN_HEADER, [row(job_plan, node, rank) for node in job_plan.nodes for rank in node.ranks])
    print("command: " + " ".join(job_plan.launch))


def headline(job_plan: JobPlan, door: str) -> str:
    """One line that says what starts."""
    devices = job_plan.devices
    what = job_plan.target if door == "kubernetes" else "on this machine"
    asks = f"{devices.count} x {devices.resource_name or devices.type} a node" if devices.count else "no device"
    return (
        f"{job_plan.name}: {what}, {len(job_plan.nodes)} x {job_plan.processes_per_node} processes"
        f" by {job_plan.launcher}, {asks}"
    )


def row(job_plan: JobPlan, node: Node, rank: Rank) -> tuple[str, ...]:
    """One rank's line of the table."""
    device = "-" if rank.device is None else str(rank.device)
    mask = ",".join(map(str, rank.devices)) or "none"
    threads = job_plan.expectation.threads_per_process
    return (node.name, str(rank.rank), str(rank.local_rank), device, mask, str(threads or "from the node's CPUs"))


def plan_json(job_plan: JobPlan) -> str:
    """The whole plan as JSON; what the entrypoint is told is under `expectation`."""
    from msgspec import to_builtins
    from msgspec.structs import asdict

    fields = asdict(job_plan)
    fields["expectation"] = json.loads(job_plan.expectation.to_json())
    fields["warnings"] = [str(warning) for warning in job_plan.warnings]
    return json.dumps(to_builtins(fields), indent=2, sort_keys=True)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Aligned columns; drawn by rich on a terminal, plain when piped."""
    lines = [tuple(line) for line in rows]
    if sys.stdout.isatty():
        _rich_table(header, lines)
        return
    widths = [max(len(line[column]) for line in (tuple(header), *lines)) for column in range(len(header))]
    for line in (tuple(header), *lines):
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _rich_table(header: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    drawn = Table(*header, box=None, header_style="bold", pad_edge=False)
    for line in lines:
        drawn.add_row(*(Text(cell) for cell in line))
    Console().print(drawn)

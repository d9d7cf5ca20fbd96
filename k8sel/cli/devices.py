"""`k8sel devices`: lists this machine's devices. Needs neither a job file nor a cluster."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from k8sel.cli.options import choice, completed, formats

AUTO = "auto"


def _types(incomplete: str) -> list[str]:
    from k8sel.facts.accelerators import ROWS

    return completed(AUTO, *ROWS)(incomplete)


def devices(
    kind: Annotated[
        str,
        typer.Option("--type", help="A row of the accelerator table; auto: all types here.", autocompletion=_types),
    ] = AUTO,
    output: Annotated[str, formats("table", "json")] = "table",
    facts: Annotated[
        bool, typer.Option("--facts", help="Also list the facts about each type, with source and day.")
    ] = False,
) -> None:
    """List this machine's devices, as the check sees them. A job file uses the numbers in INDEX."""
    from k8sel.cli.show import devices as show_devices
    from k8sel.facts.accelerators import ROWS
    from k8sel.machine import hardware

    choice("-o", output, ("table", "json"))
    choice("--type", kind, (AUTO, *ROWS))
    rows = list(ROWS.values()) if kind == AUTO else [ROWS[kind]]
    seen = [hardware.look(row) for row in rows]
    shown = [each.row for each in seen if facts and (each.found.devices or kind != AUTO)]
    show_devices.devices(seen, hardware.masks(os.environ), output, shown)

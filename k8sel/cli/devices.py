"""`k8sel devices`: lists this machine's devices. Needs neither a job file nor a cluster."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k8sel.cli.options import choice, completed, formats, type_choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from k8sel.facts.accelerators import Row
    from k8sel.machine.hardware import Seen

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
    record: Annotated[
        Path | None,
        typer.Option(
            "--record",
            metavar="DIR",
            help="Also write what k8sel read and found here to two files in DIR, without serial numbers.",
        ),
    ] = None,
) -> None:
    """List this machine's devices, as the check sees them. A job file uses the numbers in INDEX."""
    from k8sel.cli.show import devices as show_devices
    from k8sel.facts.accelerators import ROWS
    from k8sel.machine import hardware

    choice("-o", output, ("table", "json"))
    type_choice("--type", kind, AUTO)
    rows = list(ROWS.values()) if kind == AUTO else [ROWS[kind]]
    seen = [hardware.look(row) for row in rows] if record is None else _recorded(rows, record)
    shown = [each.row for each in seen if facts and (each.found.devices or kind != AUTO)]
    show_devices.devices(seen, hardware.masks(os.environ), output, shown)


def _recorded(rows: Sequence[Row], folder: Path) -> list[Seen]:
    from k8sel.cli.show import devices as show_devices
    from k8sel.machine import hardware, recording

    touched = recording.Touched()
    seen = [hardware.look(row) for row in rows]
    touched.on = False
    layout = recording.layout(touched, hardware.this(), os.environ)
    machine, found = recording.write(folder, layout, show_devices.document(seen, {}))
    print(
        f"recorded: {machine} has what k8sel read, {found} what it found\n"
        "UUIDs, serial numbers and this host's name are replaced. Read both files before you send them",
        file=sys.stderr,
    )
    return seen

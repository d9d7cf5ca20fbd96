"""docs/hardware.json: which cells of docs/selection.md came true on a real GPU, and on which."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

from gpu.smi import Card

ROOT = Path(__file__).parents[2]
DATA = ROOT / "docs" / "hardware.json"


def record(cell: str, devices: Sequence[int], cards: Sequence[Card]) -> None:
    """Writes one down, in place of an older one; only with K8SEL_RECORD_GPU=1, and never of a machine laid out."""
    if os.environ.get("K8SEL_RECORD_GPU") != "1" or "K8SEL_ROOT" in os.environ:
        return
    runs = [run for run in json.loads(DATA.read_text(encoding="utf-8")) if run["cell"] != cell]
    run = {
        "cell": cell,
        "devices": list(devices),
        "machine": f"{len(cards)} x {cards[0].name}",
        "driver": cards[0].driver,
        "k8sel": _commit(),
        "date": datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
    }
    lines = [json.dumps(each) for each in sorted([*runs, run], key=lambda each: str(each["cell"]))]
    DATA.write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def _commit() -> str:
    """Returns the tested commit, with a plus if files differ from it."""
    command = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"

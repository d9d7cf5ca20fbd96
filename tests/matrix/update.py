"""Records anew what comes of every cell, for docs/selection.md, and prints what changed, for a person to read.

    PYTHONPATH=tests python -m matrix.update && python docs/generate.py

No test run writes it.
"""

from __future__ import annotations

import difflib
import json
from pathlib import Path
from tempfile import TemporaryDirectory

from matrix import cells, doors
from matrix.vendors import HOSTS


def main() -> None:
    """Goes through every door with every row."""
    with TemporaryDirectory() as scratch:
        image = Path(scratch)
        doors.furnish(image)
        found = [cells.of(row, door, image) for row in HOSTS for door in doors.DOORS]
    lines = [f"{json.dumps(name)}: {json.dumps(cell)}" for each in found for name, cell in each.items()]
    after = "{\n" + ",\n".join(lines) + "\n}\n"
    before = cells.DATA.read_text(encoding="utf-8") if cells.DATA.exists() else ""
    print("\n".join(difflib.unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="")))
    cells.DATA.write_text(after, encoding="utf-8")


if __name__ == "__main__":
    main()

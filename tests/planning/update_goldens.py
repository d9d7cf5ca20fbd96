"""Writes the goldens anew and prints what changed, for a person to read before it is committed.

    PYTHONPATH=tests python -m planning.update_goldens [CASE...]

No test run writes a golden.
"""

from __future__ import annotations

import difflib
import sys

from planning import goldens


def main(cases: list[str]) -> None:
    """Updates ``cases``, or all."""
    for case in cases or goldens.NAMES:
        file = goldens.expected_file(case)
        before = file.read_text() if file.exists() else ""
        after = goldens.actual(case)
        if before != after:
            lines = difflib.unified_diff(before.splitlines(), after.splitlines(), f"a/{case}", f"b/{case}", lineterm="")
            print("\n".join(lines))
            file.write_text(after)


if __name__ == "__main__":
    main(sys.argv[1:])

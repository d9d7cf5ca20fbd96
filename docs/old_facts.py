"""Lists the facts that were read more than a year ago, the oldest first: `python docs/old_facts.py [--days 365]`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, timedelta

from k8sel.facts.sources import Fact, facts


def old(tables: Mapping[str, Sequence[Fact]], today: date, days: int) -> Iterator[str]:
    """Yields a line for each source that is older than ``days``, or has no day."""
    limit = today - timedelta(days)
    named = [(source.day, f"{table} {fact.row}.{fact.field}: {source.text}")
             for table, rows in tables.items() for fact in rows for source in fact.sources]  # fmt: skip
    for day, line in sorted((day or date.min, line) for day, line in named):
        if day < limit:
            yield f"{'no day' if day == date.min else day!s:10}  {line}"


def main(words: Sequence[str]) -> None:
    """Prints the list."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=365)
    for line in old(facts(), date.today(), parser.parse_args(words).days):
        print(line)


if __name__ == "__main__":
    main(sys.argv[1:])

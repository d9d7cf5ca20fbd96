"""`k8sel receipt`: collects receipts and compares them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from k8sel.cli.cluster import JobKind, connected, refs
from k8sel.cli.options import Context, Namespace, choice, formats, usage

if TYPE_CHECKING:
    from k8sel.receipts.collect import Receipts

DIFF = "diff"
DIFFERENT, ERROR = 1, 2  # exit statuses of `diff`, as diff(1) has them
CONTRADICTORY = 1  # exit status for one job's receipts


def receipt(
    what: Annotated[
        list[str],
        typer.Argument(
            help="A job's name or its file (.yaml), or a log or JSON document with receipts; - is standard input. "
            "A name that exists as a file, or has a dot or a slash in it, is a file.",
            metavar="JOB|FILE | diff A B",
        ),
    ],
    namespace: Namespace = None,
    context: Context = None,
    kind: JobKind = None,
    output: Annotated[str, formats("table", "json")] = "table",
) -> None:
    """Show which device each rank of a job had. `diff A B` shows the differences in B.

    Exit status: 1 if the receipts contradict each other. Of `diff`, 0: no difference, 1: some, 2: an error, or receipts
    that contradict each other.
    """
    from k8sel.cli.show import receipts
    from k8sel.receipts import compare
    from k8sel.receipts.collect import plain

    choice("-o", output, ("table", "json"))
    names = _named(what)
    found = [_found(name, namespace, context, kind) for name in names]
    for name, each in zip(names, found, strict=True):
        for note in each.notes():
            print(f"note: {plain(f'{name}: {note}')}", file=sys.stderr)
    contradictory = any(each.contradictions for each in found)
    if len(found) == 1:
        receipts.receipts(found[0], output)
        sys.exit(CONTRADICTORY if contradictory else 0)
    result = compare.compare(*found)
    receipts.differences(result, output)
    sys.exit(ERROR if contradictory else DIFFERENT if result.differences else 0)


def _named(words: list[str]) -> list[str]:
    """The one name to show, or the two names to compare."""
    if len(words) == 1:
        return words
    if words[0] == DIFF and len(words) == 3:
        return words[1:]
    raise usage(
        f"expected one job, or diff and two jobs, got {len(words)} words",
        "use k8sel receipt JOB|FILE, or k8sel receipt diff A B",
    )


def _found(name: str, namespace: str | None, context: str | None, kind: str | None) -> Receipts:
    from k8sel.cli import gather

    if gather.is_file(name) and Path(name).suffix not in (".yaml", ".yml"):
        return gather.of_file(name)
    each = refs(name, namespace, kind)
    if len(each) != 1:
        raise usage(f"{name} has {len(each)} jobs", "name one of them")
    return gather.of_job(connected(context, namespace), each[0])

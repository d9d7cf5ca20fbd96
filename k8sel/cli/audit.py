"""`k8sel audit`: finds traps in manifests. Needs no cluster."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from k8sel.cli.options import Quiet, choice, formats, parsed

OUTPUTS = ("text", "json", "sarif")


def audit(
    files: Annotated[list[str], typer.Argument(help="Manifests; - is standard input.", metavar="FILE...")],
    output: Annotated[str, formats(*OUTPUTS)] = "text",
    quiet: Quiet = False,
) -> None:
    """Find traps in manifests that others wrote. Read PyTorchJob, MPIJob, Job and Pod.

    The exit status is 1 if there is a trap.
    """
    from k8sel.audit import KINDS, audit
    from k8sel.cli.show import audit as show_audit
    from k8sel.cli.streams import write

    choice("-o", output, OUTPUTS)
    audited = parsed(files, audit, what="a manifest")
    findings = [finding for found, _ in audited for finding in found]
    shown = {"text": show_audit.text, "json": show_audit.as_json, "sarif": show_audit.sarif}[output]
    write(shown(findings))
    if not quiet:
        print(_sum(sum(objects for _, objects in audited), len(findings), KINDS), file=sys.stderr)
    sys.exit(1 if findings else 0)


def _sum(objects: int, traps: int, kinds: tuple[str, ...]) -> str:
    if not objects:
        return f"no {', '.join(kinds)} found: nothing was checked (use `k8sel validate` for job files)"
    return f"{objects} {'object' if objects == 1 else 'objects'} checked, {traps} {'trap' if traps == 1 else 'traps'}"

"""`k8sel render`: prints the Kubernetes objects of jobs. Needs no cluster."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Annotated, Any

import typer

from k8sel.cli import streams
from k8sel.cli.options import Files, Quiet, choice, formats, plans, read, shown, text, usage


def render(
    files: Files,
    output: Annotated[str, formats("yaml", "json")] = "yaml",
    krm: Annotated[
        bool,
        typer.Option(
            "--krm", help="Act as a KRM function: FILE is a ResourceList; replace each job in it by its objects."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """Print the Kubernetes objects; needs no cluster."""
    from k8sel import api

    choice("-o", output, ("yaml", "json"))
    if krm:
        _function(files, output, quiet)
        return
    _print([item for job_plan in plans(read(files), quiet) for item in api.render(job_plan)], output)


def _function(files: list[str], output: str, quiet: bool) -> None:
    """Prints a ResourceList, also after errors. An error in any job gives exit status 1, as orchestrators expect."""
    from k8sel.cli.krm import MAX_BYTES, answer

    if len(files) != 1:
        raise usage(f"--krm takes one ResourceList, and {len(files)} files are given", "use k8sel render --krm -")
    made = answer(text(files[0], what="a ResourceList", most=MAX_BYTES), shown(files[0]))
    for finding in made.findings:
        if finding.severity == "error" or not quiet:
            print(finding, file=sys.stderr)
    _print([made.resource_list], output)
    if made.failed:
        raise typer.Exit(1)


def _print(objects: Iterable[dict[str, Any]], output: str) -> None:
    from k8sel.jobfile import yamlio

    streams.write(yamlio.dump(objects) if output == "yaml" else yamlio.dump_json(objects))

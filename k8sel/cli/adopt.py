"""`k8sel from`: turns a command line or a manifest into a job file. Starts nothing."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from k8sel.cli.cluster import connected
from k8sel.cli.options import Context, Namespace, Quiet, rows, shown, text, type_choice, usage, warn, write_new
from k8sel.jobfile.limits import MAX_BYTES

Line = Annotated[
    str, typer.Argument(help="The command line, in quotes; - is standard input, for several lines.", metavar="[LINE]")
]
Manifest = Annotated[
    str | None,
    typer.Option(
        "-f",
        "--file",
        help="Read a manifest instead: a file, - for standard input, or KIND/NAME on the cluster.",
    ),
]
Output = Annotated[Path | None, typer.Option("-o", "--output", help="File to write; default: print it.")]
Name = Annotated[str | None, typer.Option(help="The job's name; default: the program's.")]
Image = Annotated[str | None, typer.Option(help="The container image, if the line names none.")]
Type = Annotated[
    str | None,
    typer.Option(
        "-a", "--accelerator", help="A row of the accelerator table, if the line names none.", autocompletion=rows
    ),
]


def from_(
    line: Line = "-",
    manifest: Manifest = None,
    output: Output = None,
    name: Name = None,
    image: Image = None,
    accelerator: Type = None,
    namespace: Namespace = None,
    context: Context = None,
    quiet: Quiet = False,
) -> None:
    """Turn a command line or a manifest into a job file. Run nothing; name each part that a job file cannot have."""
    from k8sel.adopt import line as fromline
    from k8sel.adopt import manifest as frommanifest
    from k8sel.cli.streams import write

    if accelerator is not None:
        type_choice("--accelerator", accelerator)
    if manifest is not None and line != "-":
        raise usage("a command line and a manifest are given", "give only one of them")
    if manifest is not None:
        source, file = _manifest(manifest, context, namespace)
    else:
        piped = line == "-"
        source, file = (_text(line, "a command line", fromline.MAX_BYTES), shown(line)) if piped else (line, "<line>")
    options = fromline.Options(file=file, name=name, image=image, accelerator=accelerator)
    made, notes = (fromline if manifest is None else frommanifest).convert(source, options)
    warn(notes, quiet)
    if output is not None:
        write_new(output, made, "from ... -o")
        print(f"{output} is written. Next: k8sel plan {output}", file=sys.stderr)
    else:
        write(made)


def _manifest(named: str, context: str | None, namespace: str | None) -> tuple[str, str]:
    """A manifest's text and name, from a file or the cluster."""
    from k8sel.cluster import objects

    wanted = objects.named(named)
    if wanted is None or Path(named).exists():
        return _text(named, "a manifest", MAX_BYTES), shown(named)
    from k8sel.jobfile import yamlio

    return yamlio.dump([objects.read(connected(context, namespace), *wanted)]), named


def _text(file: str, what: str, most: int) -> str:
    return text(file, what=what, most=most).decode("utf-8", "replace")

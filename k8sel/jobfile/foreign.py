"""Recognizes the files of other tools, so that the one answer is how to go on. Imported only for a wrong file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from k8sel.errors import Kind, Problem
from k8sel.jobfile.spec import API_VERSION, KIND
from k8sel.wording import bare

_STARTER = "run `k8sel init` to create a job file"
_LINE = "`k8sel from --image IMAGE 'COMMAND LINE'` makes a job file of the line that starts the program"
_MANIFEST = "`k8sel from -f FILE` makes a job file of it"
_MANIFESTS = ("PyTorchJob", "MPIJob", "Job", "Pod")  # what `k8sel from -f` reads


class Format(NamedTuple):
    """A file of another tool: a mapping with all of these keys, and one of the others where there are any."""

    name: str
    keys: tuple[str, ...]
    others: tuple[str, ...] = ()


FORMATS = (
    Format("Docker Compose", ("services",)),  # docs.docker.com/reference/compose-file
    Format(
        "SkyPilot", ("run",), ("resources", "setup", "num_nodes", "workdir", "file_mounts", "envs")
    ),  # docs.skypilot.co
    Format(
        "dstack", ("type", "commands"), ("resources", "image", "python", "nodes", "name")
    ),  # dstack.ai/docs/reference
)


def document(data: Mapping[str, Any]) -> Problem | None:
    """Returns the problem of a document that is no job file at all; None for one that wants to be one."""
    kind = data.get("kind")
    if kind == KIND or data.get("apiVersion") == API_VERSION:
        return None
    if isinstance(kind, str):
        message = f"kind {KIND} expected, {bare(kind)} found"
        hint = _MANIFEST if kind in _MANIFESTS else _STARTER
        return Problem(kind=Kind.NOT_SUPPORTED, path=("kind",), message=message, hint=hint)
    for each in FORMATS:
        if all(key in data for key in each.keys) and (not each.others or any(key in data for key in each.others)):
            message = f"this is a file of {each.name}, not a job file of k8sel"
            return Problem(kind=Kind.NOT_SUPPORTED, path=(), message=message, hint=_LINE)
    return None


def text(source: bytes) -> tuple[str, str] | None:
    """Returns message and hint for a text that is no YAML but a script, or a template that nobody has filled in."""
    if source.startswith(b"#!"):
        of = "Slurm" if re.search(rb"^#SBATCH\b", source, re.MULTILINE) else "a shell"
        return (
            f"this is a script for {of}, not a job file",
            "`k8sel from --image IMAGE - < FILE` makes a job file of it",
        )
    template = re.search(rb"\{\{-?\s*[\w.$\"]", source)
    if template:
        return "this is a template with {{ }}", "fill it in first, for example with `helm template`"
    return None

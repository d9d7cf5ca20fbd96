"""The job file's JSON Schema, for editors and the chart: generated from the models, closed, without null branches.

``python docs/generate.py`` writes the committed copy; a test compares the two.
"""

from __future__ import annotations

from typing import Any

import msgspec

from k8sel.facts.accelerators import ROWS
from k8sel.facts.backends import BACKENDS
from k8sel.jobfile.spec import JobFile

Schema = dict[str, Any]

ID = "https://k8sel.dev/schemas/v1alpha1/job.json"
NULLABLE = "x-nullable"
NOTHING: tuple[Any, ...] = (None, (), {})  # defaults that set nothing


def schema(mark_nullable: bool = False) -> Schema:
    """Returns a job file's JSON Schema (draft 2020-12); ``mark_nullable``: with NULLABLE where null is "not given"."""
    made = msgspec.json.schema(JobFile)
    parts = {name: _closed(part, mark_nullable) for name, part in made["$defs"].items()}
    for name, part in parts.items():
        part["properties"] = {key: _titled(key, field) for key, field in part["properties"].items()}
        if name == "Accelerator":
            part["properties"]["type"]["enum"] = [*ROWS, "auto"]
            part["properties"]["resource"]["examples"] = [
                row.resource_name for row in ROWS.values() if row.resource_name
            ]
        if name == "Spec":
            part["properties"]["backend"]["enum"] = [*BACKENDS]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": ID,
        "$ref": made["$ref"],
        "title": "k8sel job file",
        "description": "Which accelerators a training job uses, in which order, and how it is launched.",
        "$defs": parts,
    }


def _closed(part: Schema, mark: bool) -> Schema:
    """Returns ``part`` without its null branch and empty defaults, at every level."""
    branches = [branch for branch in part.get("anyOf", ()) if branch != {"type": "null"}]
    rest = {key: value for key, value in part.items() if key != "anyOf" and (key != "default" or value not in NOTHING)}
    if len(branches) == 1:
        # `rest` gives the order of the keys, and the field's words override its type's.
        return _closed({**rest, **branches[0], **rest} | ({NULLABLE: True} if mark else {}), mark)
    closed: Schema = {key: _closed(value, mark) if isinstance(value, dict) else value for key, value in rest.items()}
    if branches:
        closed["anyOf"] = branches
    return closed


def _titled(key: str, field: Schema) -> Schema:
    """Returns ``field`` with a title in words: ``processesPerNode`` becomes "Processes per node"."""
    words = "".join(f" {letter.lower()}" if letter.isupper() else letter for letter in key)
    return {"title": words[0].upper() + words[1:], **field}

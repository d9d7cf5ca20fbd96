"""Writes the reference pages that are taken from the code: `python docs/generate.py`. A test only compares.

docs/job-file.md      every field of the job file, from its schema
docs/cli.md           every command's help, in the page written by hand
docs/job.schema.json  the schema itself, for editors
docs/entrypoint.md    the entrypoint's help, likewise
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from k8sel.entrypoint.usage import HELP
from k8sel.schema import schema

HERE = Path(__file__).parent
COMMANDS = [
    "init",
    "from",
    "schema",
    "validate",
    "plan",
    "render",
    "apply",
    "delete",
    "status",
    "logs",
    "run",
    "docker",
    "devices",
]
JOB_FILE_HEAD = """# The job file

Every field. `k8sel schema` prints the same as a JSON Schema, `k8sel init` writes a commented file to start from.
Unknown and duplicate keys are errors; what is not given is decided by `k8sel plan`, which shows the result.

| field | type | meaning |
|---|---|---|
"""
BEGIN, END = "<!-- generated from here -->\n", "<!-- to here -->\n"


def pages() -> dict[str, str]:
    """File name -> what it has to hold."""
    return {
        "job-file.md": JOB_FILE_HEAD + "".join(f"| {line} |\n" for line in _rows(schema())),
        "job.schema.json": json.dumps(schema(), indent=2, ensure_ascii=False) + "\n",
        "cli.md": _filled("cli.md", "\n".join(_help(command) for command in COMMANDS)),
        "entrypoint.md": _filled("entrypoint.md", f"```\n{HELP}```\n"),
    }


def _filled(name: str, text: str) -> str:
    """A page written by hand, with what is generated in it made anew."""
    before, _, rest = (HERE / name).read_text(encoding="utf-8").partition(BEGIN)
    return f"{before}{BEGIN}{text}{END}{rest.partition(END)[2]}"


def _rows(document: dict[str, Any]) -> Iterator[str]:
    yield from _fields(document, document, "")


def _fields(document: dict[str, Any], part: dict[str, Any], prefix: str) -> Iterator[str]:
    part = _resolve(document, part)
    for name, field in part.get("properties", {}).items():
        resolved = _resolve(document, field)
        required = " (required)" if name in part.get("required", []) else ""
        text = field.get("description") or resolved.get("description", "")
        yield f"`{prefix}{name}`{required} | {_type(resolved)} | {_escape(text)}"
        yield from _fields(document, resolved, f"{prefix}{name}.")
        if resolved.get("type") == "array":
            yield from _fields(document, resolved.get("items", {}), f"{prefix}{name}[].")


def _resolve(document: dict[str, Any], part: dict[str, Any]) -> dict[str, Any]:
    while "$ref" in part:
        found = document["$defs"][part["$ref"].rsplit("/", 1)[-1]]
        part = {**found, **{key: value for key, value in part.items() if key != "$ref"}}
    return part


def _type(field: dict[str, Any]) -> str:
    if "enum" in field:
        return " \\| ".join(f"`{value}`" for value in field["enum"])
    if "const" in field:
        return f"`{field['const']}`"
    if "anyOf" in field:
        return " \\| ".join(sorted({_type(one) for one in field["anyOf"]}))
    kind = field.get("type", "any")
    return " \\| ".join(kind) if isinstance(kind, list) else str(kind)


def _escape(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _help(command: str) -> str:
    env = {**os.environ, "COLUMNS": "110", "TERM": "dumb"}
    shown = subprocess.run(
        [sys.executable, "-m", "k8sel", command, "--help"], capture_output=True, text=True, check=True, env=env
    ).stdout
    lines = "\n".join(line.rstrip() for line in shown.strip().splitlines()).replace("python -m k8sel", "k8sel")
    return f"## k8sel {command}\n\n```\n{lines}\n```\n"


if __name__ == "__main__":
    for name, text in pages().items():
        (HERE / name).write_text(text, encoding="utf-8")
        print(f"docs/{name}")

"""Writes the chart's generated files from k8sel's own sources: `python charts/generate.py`. A test compares them.

values.schema.json            the job file's schema, in the draft that every Helm reads
README.md                     the table of fields in the hand-written page (as docs/generate.py does)
files/{accelerators,facts,launchers,mpi}.json                    what the templates look up (charts/tables.py)
files/{backends,conflicts}.json, entrypoint.sh, entrypoint.pyz    copies
"""

from __future__ import annotations

import importlib.util
import json
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

HERE = Path(__file__).parent
CHART = HERE / "k8sel"
sys.path[:] = [entry for entry in sys.path if Path(entry).absolute() != HERE.absolute()]  # CHART is not the package

from k8sel.bundle import files as brought
from k8sel.facts import backends
from k8sel.jobfile.rules import conflicts
from k8sel.jobfile.schema import NULLABLE, schema


def files() -> dict[str, bytes]:
    """Returns file name -> content, for every file of the chart except the archive (``archive_is_current``)."""
    return {
        "values.schema.json": _json(values_schema()),
        "README.md": _readme(),
        **{f"files/{name}.json": _json(table) for name, table in _program("charts/tables.py").tables().items()},
        "files/backends.json": backends.TABLE.read_bytes(),
        "files/conflicts.json": conflicts.TABLE.read_bytes(),
        "files/entrypoint.sh": brought.script().encode(),
    }


def _readme() -> bytes:
    """Returns the hand-written page with a new table of fields."""
    pages = _program("docs/generate.py")
    before, _, rest = (CHART / "README.md").read_text(encoding="utf-8").partition(pages.BEGIN)
    rows = "".join(f"| {row} |\n" for row in pages._rows(schema()))
    table = f"| field | type | meaning |\n|---|---|---|\n{rows}"
    return f"{before}{pages.BEGIN}{table}{pages.END}{rest.partition(pages.END)[2]}".encode()


def _program(path: str) -> ModuleType:
    """Loads a Python file that is not in a package."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, HERE.parent / path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def archive_is_current() -> bool:
    """Reports whether the chart's zipapp has today's members; compressed bytes depend on the zlib version."""
    file = CHART / "files" / brought.ARCHIVE
    return file.exists() and _members(file.read_bytes()) == _members(brought.archive())


def values_schema() -> dict[str, Any]:
    """Returns the job file's schema for Helm's values: Helm names the job, and reserves `global`."""
    made = schema(mark_nullable=True)
    parts: dict[str, Any] = {name: _draft_7(part) for name, part in made["$defs"].items()}
    parts["Metadata"]["required"].remove("name")
    parts["Metadata"]["properties"]["name"] = _with_null(parts["Metadata"]["properties"]["name"])
    whole = parts.pop("JobFile")
    _program("charts/forms.py").tighten({**parts, "JobFile": whole})
    whole["properties"]["global"] = {"description": "Helm's own; not read.", "type": "object"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **whole,
        "title": made["title"],
        "required": ["spec"],
        "definitions": parts,
    }


def _draft_7(part: object) -> object:
    """Returns ``part`` with the keywords of draft 7, and with null where null means "not given"."""
    if isinstance(part, list):
        return [_draft_7(item) for item in part]
    if not isinstance(part, dict):
        return part
    made: dict[str, Any] = {key: _draft_7(value) for key, value in part.items() if key != NULLABLE}
    if "$ref" in made:
        made["$ref"] = made["$ref"].replace("#/$defs/", "#/definitions/")
    return _with_null(made) if part.get(NULLABLE) else made


def _with_null(part: dict[str, Any]) -> dict[str, Any]:
    """Returns ``part`` with null as another allowed value."""
    also = {"enum": [None], "anyOf": [{"type": "null"}], "type": ["null"]}
    return {**part, **{word: [*_listed(part[word]), *null] for word, null in also.items() if word in part}}


def _listed(value: Any) -> list[Any]:  # noqa: ANN401  # of any type in a schema
    return value if isinstance(value, list) else [value]


def _members(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def _json(data: object) -> bytes:
    return (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode()


def main() -> None:
    """Writes all files and prints their names."""
    written = files()
    if not archive_is_current():
        written[f"files/{brought.ARCHIVE}"] = brought.archive()
    for name, content in written.items():
        (CHART / name).write_bytes(content)
        print(f"charts/k8sel/{name}", file=sys.stderr)


if __name__ == "__main__":
    main()

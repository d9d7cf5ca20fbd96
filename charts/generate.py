"""Writes what the chart has from k8sel's own sources: `python charts/generate.py`. A test only compares.

values.schema.json            the job file's schema, in the draft that every Helm reads
README.md                     its fields, in the page written by hand
files/accelerators.json, mpi.json, entrypoint.sh, entrypoint.pyz    copies
files/facts.json              what is a constant in k8sel's code, so that no template has it a second time
"""

from __future__ import annotations

import json
import sys
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

from k8sel import accelerators, brought, defaults, launch, launchers, mpi, names, pod
from k8sel.entrypoint import masks, protocol
from k8sel.rules import quantity
from k8sel.schema import NULLABLE, schema
from k8sel.spec import API_VERSION, KIND
from k8sel.targets import podspec

HERE = Path(__file__).parent
CHART = HERE / "k8sel"


def files() -> dict[str, bytes]:
    """File name in the chart -> what it has to hold; the archive apart (``archive_is_current``)."""
    return {
        "values.schema.json": _json(values_schema()),
        "files/facts.json": _json(facts()),
        "files/accelerators.json": accelerators.TABLE.read_bytes(),
        "files/mpi.json": launchers.MPI_TABLE.read_bytes(),
        "files/entrypoint.sh": brought.script().encode(),
    }


def archive_is_current() -> bool:
    """Whether the chart's zipapp has the members of today's; the bytes between them are each zlib's own."""
    file = CHART / "files" / brought.ARCHIVE
    return file.exists() and _members(file.read_bytes()) == _members(brought.archive())


def values_schema() -> dict[str, Any]:
    """The job file's schema for Helm's values: Helm names the job, and has `global` for itself."""
    made = schema(mark_nullable=True)
    parts = {name: _draft_7(part) for name, part in made["$defs"].items()}
    parts["Metadata"]["required"].remove("name")
    whole = parts.pop("JobFile")
    whole["properties"]["global"] = {"description": "Helm's own; not read.", "type": "object"}
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **whole,
        "title": made["title"],
        "required": ["spec"],
        "definitions": parts,
    }


def _draft_7(part: Any) -> Any:
    """``part`` in the words of draft 7, with null where it is "not given"."""
    if isinstance(part, list):
        return [_draft_7(item) for item in part]
    if not isinstance(part, dict):
        return part
    made = {key: _draft_7(value) for key, value in part.items() if key != NULLABLE}
    if "$ref" in made:
        made["$ref"] = made["$ref"].replace("#/$defs/", "#/definitions/")
    return _with_null(made) if part.get(NULLABLE) else made


def _with_null(part: dict[str, Any]) -> dict[str, Any]:
    if "enum" in part:
        return {**part, "enum": [*part["enum"], None]}
    if "anyOf" in part:
        return {**part, "anyOf": [*part["anyOf"], {"type": "null"}]}
    kinds = part["type"] if isinstance(part["type"], list) else [part["type"]]
    return {**part, "type": [*kinds, "null"]}


def facts() -> dict[str, Any]:
    """The constants of k8sel's modules that the templates need."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "labels": {
            "job": names.LABEL_JOB,
            "managedBy": names.LABEL_MANAGED_BY,
            "manager": names.MANAGER,
            "jobFile": names.ANNOTATION_JOB_FILE,
        },
        "launchers": {
            name: {"targets": row.targets, "perDevice": row.per_device} for name, row in launchers.LAUNCHERS.items()
        },
        "hidden": _hidden(),
        "maskedByNumber": masks.BY_NUMBER,
        "units": {**{unit: float(f"1e{power}") for unit, power in quantity.DECIMAL.items()}, **_binary(), "": 1},
        "gangSchedulers": {gang: name for gang, name in defaults.GANG_SCHEDULERS.items() if gang},
        "entrypoint": _entrypoint(),
        "pod": {
            "graceSeconds": pod.GRACE_SECONDS,
            "launcherResources": pod.LAUNCHER_RESOURCES,
            "sharedMemory": podspec.SHARED_MEMORY,
            "entrypoint": podspec.ENTRYPOINT,
        },
        "mpi": _mpi(),
    }


def _binary() -> dict[str, int]:
    return {unit: 2**power for unit, power in quantity.BINARY.items()}


def _hidden() -> dict[str, Any]:
    """What hides every vendor's devices. Lists, since the order of variables is part of an object."""
    rows = accelerators.ROWS.values()
    return {
        "all": _entries(accelerators.hide_env()),
        "exposure": _entries({name: value for row in rows for name, value in row.exposure_hide.items()}),
        "mask": _entries({name: value for row in rows for name, value in row.mask_hide.items()}),
    }


def _entrypoint() -> dict[str, Any]:
    default = protocol.Expectation("", ())
    return {
        "folder": launch.FOLDER,
        "builtIn": launch.BUILT_IN,
        "script": brought.SCRIPT,
        "archive": brought.ARCHIVE,
        "variable": protocol.VARIABLE,
        "version": protocol.VERSION,
        "defaults": {
            "order": default.order,
            "isolation": default.isolation,
            "launcher": default.launcher,
            "nodes": default.nodes,
            "processesPerNode": default.processes_per_node,
            "check": default.check,
        },
    }


def _mpi() -> dict[str, Any]:
    return {
        "implementation": defaults.MPI,
        "sshPort": defaults.SSH_PORT,
        "rootSsh": defaults.ROOT_SSH,
        "userSsh": defaults.USER_SSH,
        "constants": _entries(mpi.CONSTANTS),
        "sshOptions": mpi.SSH_OPTIONS,
        "sshdStart": mpi.SSHD_START,
        "sshdOptions": mpi.SSHD_OPTIONS,
        "capabilities": mpi.CAPABILITIES,
        "rootCapabilities": mpi.ROOT_CAPABILITIES,
    }


def _entries(values: Any) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _members(archive: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(BytesIO(archive)) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def _json(data: Any) -> bytes:
    return (json.dumps(data, indent=2, ensure_ascii=False) + "\n").encode()


def main() -> None:
    """Writes all of them, and says which."""
    written = files()
    if not archive_is_current():
        written[f"files/{brought.ARCHIVE}"] = brought.archive()
    for name, content in written.items():
        (CHART / name).write_bytes(content)
        print(f"charts/k8sel/{name}", file=sys.stderr)


if __name__ == "__main__":
    main()

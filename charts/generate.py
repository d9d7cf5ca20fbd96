"""Writes the chart's generated files from k8sel's own sources: `python charts/generate.py`. A test compares them.

values.schema.json            the job file's schema, in the draft that every Helm reads
README.md                     the table of fields in the hand-written page (as docs/generate.py does)
files/{accelerators,backends,conflicts,launchers,mpi}.json, entrypoint.sh, entrypoint.pyz    copies
files/facts.json              the constants of k8sel's code, so that no template repeats them
"""

from __future__ import annotations

import importlib.util
import json
import sys
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from types import ModuleType
from typing import Any

import msgspec
import msgspec.inspect

HERE = Path(__file__).parent
CHART = HERE / "k8sel"
sys.path[:] = [entry for entry in sys.path if Path(entry).absolute() != HERE.absolute()]  # CHART is not the package

from k8sel.bundle import files as brought
from k8sel.emit import podspec
from k8sel.entrypoint import masks, protocol
from k8sel.facts import accelerators, backends, fields, launchers, names
from k8sel.facts.kinds import JOB_KINDS
from k8sel.jobfile import defaults, quantity
from k8sel.jobfile.rules import conflicts
from k8sel.jobfile.rules import env as env_rules
from k8sel.jobfile.rules import launch as launch_rules
from k8sel.jobfile.schema import NULLABLE, schema
from k8sel.jobfile.spec import API_VERSION, CCL_WORKERS, KIND, Spec, decode
from k8sel.planning import launch, mpi, pod


def files() -> dict[str, bytes]:
    """Returns file name -> content, for every file of the chart except the archive (``archive_is_current``)."""
    return {
        "values.schema.json": _json(values_schema()),
        "README.md": _readme(),
        "files/facts.json": _json(facts()),
        "files/accelerators.json": accelerators.TABLE.read_bytes(),
        "files/backends.json": backends.TABLE.read_bytes(),
        "files/conflicts.json": conflicts.TABLE.read_bytes(),
        "files/launchers.json": _json({name: _launcher(row) for name, row in launchers.LAUNCHERS.items()}),
        "files/mpi.json": launchers.MPI_TABLE.read_bytes(),
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


def facts() -> dict[str, Any]:
    """Returns the constants of k8sel's modules that the templates use."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "jobs": {
            name: {"apiVersion": kind.api_version, "operator": kind.operator, "resource": f"{kind.plural}.{kind.group}"}
            for name, kind in JOB_KINDS.items()
        },
        "labels": {
            "job": names.LABEL_JOB,
            "managedBy": names.LABEL_MANAGED_BY,
            "manager": names.MANAGER,
            "jobFile": names.ANNOTATION_JOB_FILE,
            "queue": names.LABEL_QUEUE,
        },
        "backends": {
            "options": backends.OPTIONS,
            "variables": dict(backends.VARIABLES),
            "workers": CCL_WORKERS,
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
        "parts": _parts(),
        "defaults": _defaults(),
        "copied": {place: fields.copied(place) for place in ("pod", "container")},
        "mpi": _mpi(),
        "refusals": _refusals(),
    }


def _plain(row: launchers.Launcher) -> Any:  # noqa: ANN401  # of JSON's types
    """Returns a launcher's row as plain data; msgspec does not convert read-only mappings."""
    return msgspec.to_builtins(row, enc_hook=dict)


def _binary() -> dict[str, int]:
    return {unit: 2**power for unit, power in quantity.BINARY.items()}


def _hidden() -> dict[str, Any]:
    """Returns the variables that hide every vendor's devices, as lists: their order is part of an object."""
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
            "mpi": default.mpi,
            "backend": default.backend,
            "nodes": default.nodes,
            "processesPerNode": default.processes_per_node,
            "check": default.check,
        },
    }


def _parts() -> dict[str, list[str]]:
    """Returns the parts of ``spec`` that exist, empty, if the file omits them."""
    kinds = {
        "models": msgspec.inspect.StructType,
        "maps": msgspec.inspect.DictType,
        "lists": msgspec.inspect.VarTupleType,
    }
    info = msgspec.inspect.type_info(Spec)
    assert isinstance(info, msgspec.inspect.StructType)
    types = {field.encode_name: _bare_type(field.type) for field in info.fields}
    return {part: [name for name, each in types.items() if isinstance(each, kind)] for part, kind in kinds.items()}


def _bare_type(kind: msgspec.inspect.Type) -> msgspec.inspect.Type:
    return kind.type if isinstance(kind, msgspec.inspect.Metadata) else kind


def _defaults() -> dict[str, dict[str, Any]]:
    """Returns, for each part of the job file, the defaults that are equal in every job."""
    data = {"command": ["true"], "launcher": "mpirun", "accelerator": {"type": "cpu"}}
    job = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "job"}, "spec": data}
    spec = defaults.default(decode(job)).spec
    return {
        "spec": {"nodes": spec.nodes},
        "accelerator": {
            "order": spec.accelerator.order,
            "allocation": spec.accelerator.allocation,
            "isolation": spec.accelerator.isolation,
        },
        "mpi": {"implementation": spec.mpi.implementation, "sshPort": spec.mpi.ssh_port},
        "policy": {
            "maxRestarts": spec.policy.max_restarts,
            "backoffLimit": spec.policy.backoff_limit,
            "cleanPodPolicy": spec.policy.clean_pod_policy,
        },
        "entrypoint": {"mode": spec.entrypoint.mode},
    }


def _mpi() -> dict[str, Any]:
    return {
        "rootSsh": defaults.ROOT_SSH,
        "userSsh": defaults.USER_SSH,
        "constants": _entries(mpi.CONSTANTS),
        "sshOptions": mpi.SSH_OPTIONS,
        "sshdStart": mpi.SSHD_START,
        "sshdOptions": mpi.SSHD_OPTIONS,
        "capabilities": mpi.CAPABILITIES,
        "rootCapabilities": mpi.ROOT_CAPABILITIES,
    }


def _launcher(row: launchers.Launcher) -> dict[str, Any]:
    """Returns a launcher's row with the kinds of job that run it; the first is the default."""
    return {**_plain(row), "targets": row.targets}


def _refusals() -> dict[str, Any]:
    """Returns the values that the rules compare with."""
    return {
        "conflicts": conflicts.FACTS,
        "withoutDevices": accelerators.without_devices().name,
        "computes": conflicts.COMPUTES,
        "targets": conflicts.TARGETS,
        "bound": _bound(),
        "starters": sorted(launch_rules.STARTERS),
        "modules": sorted(launch_rules.MODULES),
        "inShell": launch_rules.IN_SHELL,
        "name": schema()["$defs"]["Metadata"]["properties"]["name"]["pattern"],
    }


def _bound() -> dict[str, Any]:
    """Returns MPI -> binding -> the variables that mpirun's words for the binding set."""
    return {
        name: {binding: env_rules.bound_by(mpi, binding) for binding in mpi.binding}
        for name, mpi in launchers.MPIS.items()
    }


def _entries(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


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

"""Finds the field of the job file that made a field of a manifest. Pure; knows no cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from k8sel.errors import FieldPath
from k8sel.facts.fields import FIELDS, Field
from k8sel.facts.names import LABEL_QUEUE

_PART = re.compile(
    r"""\.?(?P<name>[A-Za-z_<][\w<>-]*)                          # .spec
      | \[(?P<index>\d+)\]                                       # [0]
      | \[\s*(?P<quote>["'])(?P<quoted>[^"']*)(?P=quote)\s*\]    # ['Master'], ["a/b"]
      | \[(?P<key>\w+)=(?P<value>"[^"]*"|\d+)[^\]]*\]            # [name="pytorch"]: server-side apply's list keys
      | \[(?P<bare>[^\]]*)\]                                     # [Master]: apimachinery's field.Path.Key
    """,
    re.VERBOSE,
)

_LONGEST = 3  # no row has a path of more parts

_Table = Mapping[tuple[str, ...], Field]
_BY_NAME = {"env": "name", "volumes": "name", "volumeMounts": "mountPath", "imagePullSecrets": "name"}


def _table(place: str, *above: str) -> dict[tuple[str, ...], Field]:
    """Path of an object's field below ``above`` -> its row, for the fields that the job file has."""
    return {(*above, *name.split(".")): row for name, row in FIELDS[place].items() if row.job}


_SPEC: _Table = _table("spec") | _table("runPolicy", "runPolicy")
_REPLICA: _Table = _table("replica")
_POD: _Table = _table("pod")
_CONTAINER: _Table = _table("container")
_EXPECTATION: _Table = _table("expectation")


def parse(manifest_path: str) -> tuple[str | int, ...]:
    """Splits ``spec.a[Master].b[0]`` into its parts; a list key ``[name="x"]`` stays one part, ``name=x``."""
    parts: list[str | int] = []
    for match in _PART.finditer(manifest_path.strip()):
        found = match.groupdict()
        if found["index"] is not None:
            parts.append(int(found["index"]))
        elif found["key"] is not None:
            parts.append(f"{found['key']}={found['value'].strip(chr(34))}")
        else:
            parts.append(next(text for text in (found["name"], found["quoted"], found["bare"]) if text is not None))
    return tuple(parts)


def to_field(
    manifest_path: str,
    *,
    manifest: Mapping[str, Any] | None = None,
    job: Mapping[str, Any] | None = None,
) -> FieldPath | None:
    """The job file's field behind ``spec.pytorchReplicaSpecs[Master].template.spec.containers[0].image``, or None.

    With the manifest and the job file's own data, entries of lists are found by their names.
    """
    parts = parse(manifest_path)
    field = _field(parts)
    if field is None:
        return None
    if "*" in field:  # any entry of a list, as in a policy's macro
        field = field[: field.index("*")]
    return _present(_in_list(field, parts, manifest or {}, job or {}), job)


def _field(parts: tuple[str | int, ...]) -> FieldPath | None:
    match parts:
        case ("metadata", *rest):
            return _metadata(tuple(rest))
        case ("spec", ("pytorchReplicaSpecs" | "mpiReplicaSpecs"), _, *rest):
            return _replica(tuple(rest))
        case ("spec", *rest):
            return _look_up(_SPEC, tuple(rest))
    return None


def _metadata(parts: tuple[str | int, ...]) -> FieldPath | None:
    match parts:
        case ("labels", str() as key, *_) if key == LABEL_QUEUE:
            return ("spec", "scheduling", "queue")
        case (("labels" | "annotations") as which, str() as key, *_):
            return ("metadata", which, key)
        case (("name" | "namespace" | "labels" | "annotations") as key, *_):
            return ("metadata", key)
    return None


def _replica(parts: tuple[str | int, ...]) -> FieldPath | None:
    match parts:
        case ("template", "metadata", *rest):
            return _metadata(tuple(rest))
        case ("template", "spec", *rest):
            return _pod(tuple(rest))
    return _look_up(_REPLICA, parts)


def _pod(parts: tuple[str | int, ...]) -> FieldPath | None:
    match parts:
        case ("containers", _, "env", _, "value", *rest) if rest:
            return _look_up(_EXPECTATION, tuple(rest))
        case ("containers", _, *rest) if rest:
            return _look_up(_CONTAINER, tuple(rest))
    return _look_up(_POD, parts)


def _look_up(table: _Table, parts: tuple[str | int, ...]) -> FieldPath | None:
    """The job file's field by the longest part of the path that has a row."""
    for length in range(min(len(parts), _LONGEST), 0, -1):
        row = table.get(tuple(str(part) for part in parts[:length]))
        if row:
            return row.path if row.whole else (*row.path, *parts[length:])
    return None


def _in_list(
    field: FieldPath, parts: tuple[str | int, ...], manifest: Mapping[str, Any], job: Mapping[str, Any]
) -> FieldPath:
    """The file's ``spec.env[1]`` for the manifest's ``spec.env[5]``, found by its name: k8sel adds entries."""
    if len(field) < 3 or field[1] not in _BY_NAME:
        return field
    key, entry = _BY_NAME[str(field[1])], field[2]
    if isinstance(entry, int):
        found = _get(manifest, parts[: len(parts) - (len(field) - 3)])
        name = found.get(key) if isinstance(found, Mapping) else None
    else:
        name = dict(pair.split("=", 1) for pair in [entry] if "=" in pair).get(key)
    listed = _get(job, field[:2])
    for index, own in enumerate(listed if isinstance(listed, list | tuple) else ()):
        if isinstance(own, Mapping) and own.get(key) == name:
            return (*field[:2], index, *field[3:])
    return field[:2]


def _present(field: FieldPath, job: Mapping[str, Any] | None) -> FieldPath:
    """The field in the file: affinity may be from product, a resource from count, a volume from sharedMemory."""
    if job is None or _get(job, field) is not None:
        return field
    other: FieldPath
    match field:
        case ("spec", "affinity", *_):
            other = ("spec", "accelerator", "product")
        case ("spec", "resources", str() as name) if name not in ("cpu", "memory"):
            other = ("spec", "accelerator", "count")
        case ("spec", ("tolerations" | "resources"), *_):
            other = ("spec", "accelerator")
        case ("spec", ("volumes" | "volumeMounts")):
            other = ("spec", "sharedMemory")
        case _:
            return field
    return other if _get(job, other[:-1]) is not None else field


def _get(data: object, path: FieldPath) -> object:
    """The value at ``path``; None when there is none."""
    for part in path:
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list | tuple):
            data = _entry(data, part)
        else:
            return None
    return data


def _entry(items: list[Any] | tuple[Any, ...], part: str | int) -> object:
    if isinstance(part, int):
        return items[part] if part < len(items) else None
    key, _, value = part.partition("=")
    return next((item for item in items if isinstance(item, Mapping) and item.get(key) == value), None)

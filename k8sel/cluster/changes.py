"""The changes that an apply may make to an existing job. Pure.

Neither operator rolls a changed template out to existing pods, so k8sel refuses a changed job: nothing is half changed.
Labels, annotations, and the part of runPolicy that the operator reads again (kinds.py) may change.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from k8sel.cluster.refusal import Refusal, Sent
from k8sel.cluster.rest import Object
from k8sel.entrypoint.protocol import VARIABLE
from k8sel.errors import FieldPath, Kind, Problem
from k8sel.facts.kinds import JOB_KINDS, JobKind

_JOB_FILE = "jobFile"  # of an expectation: receipts name the job file by it, and nothing depends on it
_SERVER_METADATA = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")


def keep_suspend(manifest: Object, live: Object | None, manager: str) -> Object:
    """Returns the manifest with the cluster's own spec.runPolicy.suspend.

    The file's value counts only for a new job. Later Kueue, or a person, sets the field to false to let the job run;
    to apply `true` again would stop a running job. While ``manager`` owns the field, k8sel sends the cluster's value:
    to leave it out would remove it and start a job that waits for its quota. Once another manager owns it, k8sel
    leaves it out.
    """
    policy = manifest["spec"].get("runPolicy", {})
    if live is None:
        return manifest
    kept = {key: value for key, value in policy.items() if key != "suspend"}
    if "f:suspend" in own_fields(live, manager).get("f:spec", {}).get("f:runPolicy", {}):
        kept["suspend"] = live["spec"].get("runPolicy", {}).get("suspend", False)
    if not kept and "runPolicy" not in manifest["spec"]:
        return manifest
    return {**manifest, "spec": {**manifest["spec"], "runPolicy": kept}}


def own_fields(live: Object, manager: str) -> Object:
    """The fields that ``manager`` applied, in the form of managedFields."""
    for entry in live["metadata"].get("managedFields", []):
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            return dict(entry.get("fieldsV1", {}))
    return {}


def refuse_roll_out(live: Object | None, tried: Object, sent: Sent) -> None:
    """Raises Refusal if the job exists and ``tried``, the dry run's result, differs in a field that may not change."""
    if live is None:
        return
    kind = JOB_KINDS[live["kind"]]
    paths = [path for path in differences(live["spec"], tried["spec"], "spec") if not _may_change(path, kind)]
    if not paths:
        return
    name, namespace = live["metadata"]["name"], live["metadata"]["namespace"]
    hint = f"run `k8sel delete -n {namespace} {name}` and apply again, or give the job another name"
    fields: dict[FieldPath, str] = {}
    for path in paths:  # one change of the file can change both replicas' templates
        fields.setdefault(sent.field(path), path)
    raise Refusal(
        f"{kind.kind} {name} exists, and the {kind.operator} does not change a job's pods once it is made:",
        [
            Problem(kind=Kind.FORBIDDEN, path=field, message=f"differs from the job on the cluster ({path})", hint=hint)
            for field, path in fields.items()
        ],
    )


def _may_change(path: str, kind: JobKind) -> bool:
    return path.startswith("spec.runPolicy.") and path.split(".")[2] in kind.mutable


def differences(old: object, new: object, path: str) -> Iterator[str]:
    """The deepest paths at which two values differ. Looks into expectations too."""
    if isinstance(old, dict) and isinstance(new, dict):
        old, new = _readable(old), _readable(new)
        for key in sorted(old.keys() | new.keys()):
            step = f".{key}" if key.isidentifier() else f'["{key}"]'
            yield from differences(old.get(key), new.get(key), f"{path}{step}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif old != new:
        yield path


def _readable(value: Object) -> Object:
    """The entrypoint's variable with its expectation as data, without the job file's hash: it decides nothing."""
    if value.get("name") != VARIABLE:
        return value
    try:
        return {**value, "value": {**json.loads(value["value"]), _JOB_FILE: None}}
    except (KeyError, TypeError, ValueError):  # another variable, or made by hand
        return value


def content(live: Object) -> Object:
    """The part of an object that a user can set: no status, no metadata of the server's own."""
    metadata = {key: value for key, value in live["metadata"].items() if key not in _SERVER_METADATA}
    return {**{key: value for key, value in live.items() if key != "status"}, "metadata": metadata}

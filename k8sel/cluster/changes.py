"""What an apply may change on a job that exists. Pure.

Neither operator rolls a changed template out to pods that exist, so a changed job is refused rather than half changed.
What may change: labels and annotations, and the part of runPolicy that the operator reads again (kinds.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from k8sel.cluster.refusal import Refusal, Sent
from k8sel.cluster.rest import Object
from k8sel.errors import Kind, Problem
from k8sel.facts.kinds import JOB_KINDS, JobKind

_SERVER_METADATA = ("managedFields", "resourceVersion", "generation", "creationTimestamp", "uid")


def keep_suspend(manifest: Object, live: Object | None, manager: str) -> Object:
    """The manifest with spec.runPolicy.suspend as the cluster has it, and never set by us a second time.

    The file's value only counts when the job is made. Later Kueue, or a person, lets the job run by setting it to
    false; applying `true` again would stop a running job. Where the field is still ours, leaving it out would remove it
    and start a job that waits for its quota, so it is sent as it is; where another set it, it is theirs and left out.
    """
    policy = manifest["spec"].get("runPolicy", {})
    if live is None:
        return manifest
    kept = {key: value for key, value in policy.items() if key != "suspend"}
    if _owns_suspend(live, manager):
        kept["suspend"] = live["spec"].get("runPolicy", {}).get("suspend", False)
    if not kept and "runPolicy" not in manifest["spec"]:
        return manifest
    return {**manifest, "spec": {**manifest["spec"], "runPolicy": kept}}


def _owns_suspend(live: Object, manager: str) -> bool:
    return "f:suspend" in own_fields(live, manager).get("f:spec", {}).get("f:runPolicy", {})


def own_fields(live: Object, manager: str) -> Object:
    """The fields that ``manager`` applied, as managedFields has them."""
    for entry in live["metadata"].get("managedFields", []):
        if entry.get("manager") == manager and entry.get("operation") == "Apply":
            return dict(entry.get("fieldsV1", {}))
    return {}


def refuse_roll_out(live: Object | None, tried: Object, sent: Sent) -> None:
    """Raises Refusal when the job exists and ``tried``, the dry run's result, differs where it may not."""
    if live is None:
        return
    kind = JOB_KINDS[live["kind"]]
    paths = [path for path in differences(live["spec"], tried["spec"], "spec") if not _may_change(path, kind)]
    if not paths:
        return
    name, namespace = live["metadata"]["name"], live["metadata"]["namespace"]
    hint = f"k8sel delete -n {namespace} {name}, then apply again; or give the job another name"
    fields = dict.fromkeys((sent.field(path), path) for path in paths)
    raise Refusal(
        f"{kind.kind} {name} exists, and the {kind.operator} does not change a job's pods once it is made:",
        [
            Problem(kind=Kind.FORBIDDEN, path=field, message=f"differs from the job on the cluster ({path})", hint=hint)
            for field, path in _once_a_field(fields)
        ],
    )


def _once_a_field(fields: Mapping[tuple[Any, str], None]) -> Iterator[tuple[Any, str]]:
    """A change in both replicas' templates comes from one field of the file, and is said once."""
    seen = set()
    for field, path in fields:
        if field not in seen:
            seen.add(field)
            yield field, path


def _may_change(path: str, kind: JobKind) -> bool:
    return path.startswith("spec.runPolicy.") and path.split(".")[2] in kind.mutable


def differences(old: object, new: object, path: str) -> Iterator[str]:
    """The paths at which two values differ, as deep as possible."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted(old.keys() | new.keys()):
            step = f".{key}" if key.isidentifier() else f'["{key}"]'
            yield from differences(old.get(key), new.get(key), f"{path}{step}")
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for index, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from differences(one, other, f"{path}[{index}]")
    elif old != new:
        yield path


def content(live: Object) -> Object:
    """What a user can set of an object: without the server's own bookkeeping and status."""
    metadata = {key: value for key, value in live["metadata"].items() if key not in _SERVER_METADATA}
    return {**{key: value for key, value in live.items() if key != "status"}, "metadata": metadata}

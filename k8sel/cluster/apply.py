"""Applies a job to the cluster by server-side apply: all objects or none. A second apply changes nothing.

First a dry run tries every object, so that a refusal comes before any write. Then k8sel writes the ConfigMap, the job,
and the ConfigMap's ownerReference to the job. The owner reference deletes the ConfigMap with the job.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from k8sel.cluster import changes, trouble
from k8sel.cluster.refusal import Refusal, Sent, explain
from k8sel.cluster.rest import Answer, Cluster, Object, Refused, Unreachable, find, request
from k8sel.cluster.status import end
from k8sel.errors import ClusterError
from k8sel.facts.kinds import JOB_KINDS, object_path
from k8sel.facts.names import MANAGER

Action = Literal["created", "configured", "unchanged"]
Progress = Callable[[str], None]

_WEBHOOK_PAUSE = 2.0
_ENFORCE = "pod-security.kubernetes.io/enforce"


@dataclass(frozen=True, kw_only=True, slots=True)
class Applied:
    """The result for one object. ``before`` and ``after`` are the server's; ``before`` is None for a new object."""

    kind: str
    name: str
    namespace: str
    action: Action
    warnings: tuple[str, ...]  # from the server
    before: Object | None
    after: Object

    @property
    def ended(self) -> Literal["Succeeded", "Failed"] | None:
        """The end of a job that existed before: an apply does not start it again."""
        return end(self.after) if self.kind in JOB_KINDS else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """Options of an apply. ``job`` is the job file's data; refusals use it to name its fields."""

    namespace: str | None = None  # for objects without a namespace; default: the cluster's
    job: Mapping[str, Any] | None = None
    dry_run: bool = False
    force: bool = False  # take over fields that another manager set
    webhook_seconds: float = 60
    progress: Progress = lambda _: None


def apply(cluster: Cluster, objects: Sequence[Object], options: Options | None = None) -> tuple[Applied, ...]:
    """Applies the objects that `render` made of one job, in that order: the job is the last."""
    options = options or Options()
    *parts, job = [_placed(each, cluster, options) for each in objects]
    live_job = _live(cluster, job)
    job = changes.keep_suspend(job, live_job, MANAGER)
    tried_job = _send(cluster, job, options, dry_run=True)
    changes.refuse_roll_out(live_job, tried_job.object, Sent(manifest=job, job=options.job))
    steps = [_Step(part, _live(cluster, part)) for part in [_owned(part, live_job) for part in parts]]
    tried = [_send(cluster, step.manifest, options, dry_run=True) for step in steps]
    whole = [*steps, _Step(job, live_job)]
    return _results(whole, [*tried, tried_job]) if options.dry_run else _results(whole, _write(cluster, whole, options))


@dataclass(frozen=True, slots=True)
class _Step:
    """A manifest to apply, and the cluster's present object."""

    manifest: Object
    live: Object | None


def pod_security(cluster: Cluster, namespace: str | None = None) -> str | None:
    """The Pod Security level that a namespace enforces; None if it sets none or the user may not read it."""
    try:
        found = find(cluster, f"/api/v1/namespaces/{namespace or cluster.namespace}")
    except Refused:  # namespaces are cluster-wide: many users may not read them
        return None
    labels = (found or {}).get("metadata", {}).get("labels") or {}
    return str(labels[_ENFORCE]) if _ENFORCE in labels else None


def _write(cluster: Cluster, steps: Sequence[_Step], options: Options) -> list[Answer]:
    """Writes the objects. If the job is not made, deletes the objects made for it, or says that they are left."""
    *parts, job = steps
    made = [step.manifest for step in parts if step.live is None]
    with _noted(lambda error: _taken_back(cluster, made, job.manifest, error)):
        answers = [_send(cluster, step.manifest, options) for step in steps]
    if job.live is None:  # the job that owns the parts exists only now
        with _noted(lambda _: _left(made, job.manifest, "exists, but has no owner yet")):
            for index, step in enumerate(parts):
                owned = _send(cluster, _owned(step.manifest, answers[-1].object), options)
                answers[index] = replace(owned, warnings=answers[index].warnings)
    return answers


@contextmanager
def _noted(note: Callable[[BaseException], str]) -> Iterator[None]:
    """Adds a line to an error: the objects that it leaves on the cluster. An interrupt has only this line."""
    try:
        yield
    except BaseException as error:
        text = note(error)
        if text and isinstance(error, Refusal):
            raise error.with_note(text) from error
        if text and isinstance(error, ClusterError):
            raise ClusterError(f"{error}\n{text}") from error
        error.args = (text,) if text and not isinstance(error, Exception) else error.args
        raise


def _taken_back(cluster: Cluster, made: list[Object], job: Object, error: BaseException) -> str:
    """Deletes the objects made for a job that is not made; returns the line that says so, or that they are left."""
    if not made:
        return ""
    if not isinstance(error, Exception):  # an interrupt does not wait for the server again
        return _left(made, job, "may still exist")
    try:
        if isinstance(error, Unreachable) and find(cluster, _path(job)):
            return _left(made, job, f"and {job['kind']} {job['metadata']['name']} exist: only the answer was lost")
        for part in made:
            _remove(cluster, part)
    except ClusterError:
        return _left(made, job, "may still exist")
    return f"k8sel has deleted {_names(made)} again"


def _left(made: list[Object], job: Object, state: str) -> str:
    """The line about objects that are left, with the commands that go on."""
    name, namespace = job["metadata"]["name"], job["metadata"]["namespace"]
    ways = f"Apply again to complete the job, or remove all of it: k8sel delete {name} -n {namespace}"
    return f"{_names(made)} {state}. {ways}" if made else ""


def _names(objects: list[Object]) -> str:
    return ", ".join(f"{each['kind']} {each['metadata']['name']}" for each in objects)


def _remove(cluster: Cluster, manifest: Object) -> None:
    try:
        request(cluster, "DELETE", _path(manifest))
    except Refused as refused:
        if refused.code != 404:  # 404: it was not made
            raise


def _placed(manifest: Object, cluster: Cluster, options: Options) -> Object:
    """The manifest with its namespace. Refuses an option that differs from the file's namespace."""
    named = manifest["metadata"].get("namespace")
    if named and options.namespace and named != options.namespace:
        raise ClusterError(f"the job file sets namespace {named}, the option sets {options.namespace}")
    namespace = named or options.namespace or cluster.namespace
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def _owned(manifest: Object, job: Object | None) -> Object:
    """The manifest with ``job`` as owner. A blocking reference would need a right on the job's finalizers."""
    if job is None:
        return manifest
    owner = {
        "apiVersion": job["apiVersion"],
        "kind": job["kind"],
        "name": job["metadata"]["name"],
        "uid": job["metadata"]["uid"],
    }
    return {**manifest, "metadata": {**manifest["metadata"], "ownerReferences": [owner]}}


def _path(manifest: Object) -> str:
    return object_path(manifest, manifest["metadata"]["namespace"])


def _live(cluster: Cluster, manifest: Object) -> Object | None:
    """The cluster's object of this name. Raises ClusterError while a job is being deleted: k8sel does not wait."""
    kind = JOB_KINDS.get(manifest["kind"])
    try:
        live = find(cluster, _path(manifest))
    except Refused as refused:
        raise trouble.clearly(cluster, refused, kind) from refused
    if live and kind and live["metadata"].get("deletionTimestamp"):
        name, namespace = live["metadata"]["name"], live["metadata"]["namespace"]
        raise ClusterError(
            f"{kind.kind} {name} is being deleted. "
            f"Wait with `kubectl wait --for=delete -n {namespace} {kind.plural}.{kind.group}/{name}`, then apply again"
        )
    return live


def _send(cluster: Cluster, manifest: Object, options: Options, dry_run: bool = False) -> Answer:
    """Sends one server-side apply. Waits for a webhook that is not up yet."""
    query = {"fieldManager": MANAGER, "fieldValidation": "Strict", "force": str(options.force).lower()}
    query |= {"dryRun": "All"} if dry_run else {}
    deadline, reported = time.monotonic() + options.webhook_seconds, ""
    while True:
        try:
            return request(cluster, "PATCH", _path(manifest), query=query, body=manifest)
        except Refused as refused:
            webhook = trouble.webhook_down(refused)
            if webhook is None:
                raise _why(cluster, refused, manifest, options) from refused
            if time.monotonic() + _WEBHOOK_PAUSE > deadline:
                raise _given_up(cluster, webhook, options.webhook_seconds) from refused
            if str(webhook) != reported:
                reported = str(webhook)
                options.progress(f"waiting: {reported}")
            time.sleep(_WEBHOOK_PAUSE)


def _given_up(cluster: Cluster, webhook: trouble.Webhook, seconds: float) -> ClusterError:
    look = (
        f"kubectl get endpointslices,pods -n {webhook.service.partition('/')[0]}"
        if webhook.service
        else "kubectl get pods -A"
    )
    return ClusterError(f"{cluster.host}: after {seconds:.0f} s, {webhook}. Check that its operator runs: {look}")


def _why(cluster: Cluster, refused: Refused, manifest: Object, options: Options) -> ClusterError:
    """Explains a refusal: by the cluster's own state if possible, else by the job file's fields."""
    kind = JOB_KINDS.get(manifest["kind"])
    state = trouble.general(cluster, refused)
    if state is None and refused.code == 404 and kind is not None:
        state = trouble.missing_kind(cluster, kind)
    return state or explain(cluster, refused, Sent(manifest=manifest, job=options.job))


def _results(steps: Sequence[_Step], answers: Sequence[Answer]) -> tuple[Applied, ...]:
    return tuple(_applied(step.live, answer) for step, answer in zip(steps, answers, strict=True))


def _applied(before: Object | None, answer: Answer) -> Applied:
    after, meta = answer.object, answer.object["metadata"]
    action: Action = "created" if before is None else "unchanged" if _same(before, after) else "configured"
    return Applied(
        kind=after["kind"],
        name=meta["name"],
        namespace=meta["namespace"],
        action=action,
        warnings=answer.warnings,
        before=before,
        after=after,
    )


def _same(before: Object, after: Object) -> bool:
    """Compares k8sel's own fields. resourceVersion is no measure: operators change it, and a dry run never does."""
    mine = changes.own_fields(before, MANAGER) == changes.own_fields(after, MANAGER)
    return mine and changes.content(before) == changes.content(after)

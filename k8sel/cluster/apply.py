"""Puts a job on the cluster by server-side apply: all of it or nothing, and the second time nothing.

First every object is tried as a dry run, so that a refusal comes before anything is written. Then the ConfigMap, the
job, and the ConfigMap's ownerReference to the job, by which it goes when the job goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from k8sel.cluster import changes, trouble
from k8sel.cluster.refusal import Refusal, Sent, explain
from k8sel.cluster.rest import Answer, Cluster, Object, Refused, find, request
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
    """What became of one object; ``before`` and ``after`` are the server's, ``before`` None when it is new."""

    kind: str
    name: str
    namespace: str
    action: Action
    warnings: tuple[str, ...]  # the server's own
    before: Object | None
    after: Object

    @property
    def ended(self) -> Literal["Succeeded", "Failed"] | None:
        """How a job that was there before has ended: what is applied to it starts nothing."""
        return end(self.after) if self.kind in JOB_KINDS else None


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """How to apply. ``job`` is the job file's data, used only to point at its fields in refusals."""

    namespace: str | None = None  # for objects that name none; default: the cluster's
    job: Mapping[str, Any] | None = None
    dry_run: bool = False
    force: bool = False  # take over fields that another manager set
    webhook_seconds: float = 60
    progress: Progress = lambda _: None


def apply(cluster: Cluster, objects: Sequence[Object], options: Options | None = None) -> tuple[Applied, ...]:
    """Applies what `render` made of one job, in its order: what belongs to the job first, the job last."""
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
    """What is to be applied, and what the cluster has there."""

    manifest: Object
    live: Object | None


def pod_security(cluster: Cluster, namespace: str | None = None) -> str | None:
    """The Pod Security level that a namespace enforces; None when it names none, or may not be read."""
    try:
        found = find(cluster, f"/api/v1/namespaces/{namespace or cluster.namespace}")
    except Refused:  # namespaces are cluster-wide: many may not read them
        return None
    labels = (found or {}).get("metadata", {}).get("labels") or {}
    return str(labels[_ENFORCE]) if _ENFORCE in labels else None


def _write(cluster: Cluster, steps: Sequence[_Step], options: Options) -> list[Answer]:
    """Writes for good. When the job does not come, what was made for it goes again."""
    *parts, job = steps
    try:
        answers = [_send(cluster, step.manifest, options) for step in steps]
    except BaseException as error:
        _take_back(cluster, [step.manifest for step in parts if step.live is None], error)
        raise
    if job.live is None:  # only now is there a job that can own them
        for index, step in enumerate(parts):
            owned = _send(cluster, _owned(step.manifest, answers[-1].object), options)
            answers[index] = replace(owned, warnings=answers[index].warnings)
    return answers


def _take_back(cluster: Cluster, made: list[Object], error: BaseException) -> None:
    names = ", ".join(f"{part['kind']} {part['metadata']['name']}" for part in made)
    try:
        for part in made:
            request(cluster, "DELETE", _path(part))
    except ClusterError:
        note = f"{names} may be left behind; `k8sel delete` removes it"
    else:
        note = f"{names} is removed again, so that nothing is left half done"
    if made and isinstance(error, Refusal):
        raise error.with_note(note) from error


def _placed(manifest: Object, cluster: Cluster, options: Options) -> Object:
    """The manifest in its namespace; one that its file names is not moved."""
    named = manifest["metadata"].get("namespace")
    if named and options.namespace and named != options.namespace:
        raise ClusterError(f"the job file says namespace {named}, the option says {options.namespace}")
    namespace = named or options.namespace or cluster.namespace
    return {**manifest, "metadata": {**manifest["metadata"], "namespace": namespace}}


def _owned(manifest: Object, job: Object | None) -> Object:
    """The manifest with ``job`` as its owner. Not blocking: that would need a right on the job's finalizers."""
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
    """What the cluster has under this name; an object that is just going is waited for by the user, not by us."""
    kind = JOB_KINDS.get(manifest["kind"])
    try:
        live = find(cluster, _path(manifest))
    except Refused as refused:
        raise trouble.clearly(cluster, refused, kind) from refused
    if live and kind and live["metadata"].get("deletionTimestamp"):
        name, namespace = live["metadata"]["name"], live["metadata"]["namespace"]
        raise ClusterError(
            f"{kind.kind} {name} is being deleted. "
            f"kubectl wait --for=delete -n {namespace} {kind.plural}.{kind.group}/{name}, then apply again"
        )
    return live


def _send(cluster: Cluster, manifest: Object, options: Options, dry_run: bool = False) -> Answer:
    """One server-side apply; a webhook that is not up yet is waited for."""
    query = {"fieldManager": MANAGER, "fieldValidation": "Strict", "force": str(options.force).lower()}
    query |= {"dryRun": "All"} if dry_run else {}
    deadline, said = time.monotonic() + options.webhook_seconds, ""
    while True:
        try:
            return request(cluster, "PATCH", _path(manifest), query=query, body=manifest)
        except Refused as refused:
            webhook = trouble.webhook_down(refused)
            if webhook is None:
                raise _why(cluster, refused, manifest, options) from refused
            if time.monotonic() + _WEBHOOK_PAUSE > deadline:
                raise _given_up(cluster, webhook, options.webhook_seconds) from refused
            if str(webhook) != said:
                said = str(webhook)
                options.progress(f"waiting: {said}")
            time.sleep(_WEBHOOK_PAUSE)


def _given_up(cluster: Cluster, webhook: trouble.Webhook, seconds: float) -> ClusterError:
    look = (
        f"kubectl get endpointslices,pods -n {webhook.service.partition('/')[0]}"
        if webhook.service
        else "kubectl get pods -A"
    )
    return ClusterError(f"{cluster.host}: after {seconds:.0f} s still: {webhook}. Is its operator running? See: {look}")


def _why(cluster: Cluster, refused: Refused, manifest: Object, options: Options) -> ClusterError:
    """The refusal in the best words: the cluster's own state first, then the job file's fields."""
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
    """Nothing set by us is new. resourceVersion says less: an operator moves it meanwhile, and a dry run never does."""
    mine = changes.own_fields(before, MANAGER) == changes.own_fields(after, MANAGER)
    return mine and changes.content(before) == changes.content(after)

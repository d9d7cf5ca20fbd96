"""Deletes a job and its ConfigMaps from the cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from k8sel.cluster import trouble
from k8sel.cluster.jobs import JobRef, LiveJob, find_job, not_found
from k8sel.cluster.rest import Cluster, Refused, request
from k8sel.facts.kinds import core_path, own_selector

Propagation = Literal["Foreground", "Background"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Deleted:
    """One object that the server has deleted or is deleting."""

    kind: str
    name: str
    namespace: str


def delete(
    cluster: Cluster, ref: JobRef, *, propagation: Propagation = "Background", missing_ok: bool = False
) -> tuple[Deleted, ...]:
    """Deletes the job and its ConfigMaps. Returns the deleted objects; () if ``missing_ok`` and none exist."""
    job = find_job(cluster, ref)
    try:
        parts = _parts(cluster, ref)  # before the job: the garbage collector may delete them first
        gone = [_delete_job(cluster, job, propagation)] if job else []
        for part in parts:
            _delete(cluster, core_path("configmaps", part.namespace, part.name), "Background")
    except Refused as refused:
        raise trouble.clearly(cluster, refused) from refused
    if not gone and not parts and not missing_ok:
        raise not_found(cluster, ref)
    return (*gone, *parts)


def _delete_job(cluster: Cluster, job: LiveJob, propagation: Propagation) -> Deleted:
    _delete(cluster, job.kind.path(job.namespace, job.name), propagation)
    return Deleted(kind=job.kind.kind, name=job.name, namespace=job.namespace)


def _parts(cluster: Cluster, ref: JobRef) -> list[Deleted]:
    """The job's ConfigMaps. After an interrupted apply they have no owner, so the garbage collector keeps them."""
    namespace = ref.place(cluster)
    maps = request(cluster, "GET", core_path("configmaps", namespace), query=own_selector(ref.name)).object
    names = [each["metadata"]["name"] for each in maps.get("items") or ()]
    return [Deleted(kind="ConfigMap", name=name, namespace=namespace) for name in names]


def _delete(cluster: Cluster, path: str, propagation: Propagation) -> None:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    try:
        request(cluster, "DELETE", path, body=body)
    except Refused as refused:
        if refused.code != 404:  # 404: already deleted
            raise

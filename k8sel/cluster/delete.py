"""Takes a job off the cluster, with everything that came with it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from k8sel.cluster import trouble
from k8sel.cluster.jobs import JobRef, LiveJob, find_job, not_found
from k8sel.cluster.kinds import core_path, own_selector
from k8sel.cluster.rest import Cluster, Refused, request

Propagation = Literal["Foreground", "Background"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Deleted:
    """One object that is gone, or going."""

    kind: str
    name: str
    namespace: str


def delete(
    cluster: Cluster, ref: JobRef, *, propagation: Propagation = "Background", missing_ok: bool = False
) -> tuple[Deleted, ...]:
    """Deletes the job and its ConfigMaps; what was deleted, () when there was nothing and ``missing_ok``."""
    job = find_job(cluster, ref)
    try:
        gone = [_delete_job(cluster, job, propagation)] if job else []
        gone += _delete_parts(cluster, ref.name, ref.place(cluster))
    except Refused as refused:
        raise trouble.clearly(cluster, refused) from refused
    if not gone and not missing_ok:
        raise not_found(cluster, ref)
    return tuple(gone)


def _delete_job(cluster: Cluster, job: LiveJob, propagation: Propagation) -> Deleted:
    _delete(cluster, job.kind.path(job.namespace, job.name), propagation)
    return Deleted(kind=job.kind.kind, name=job.name, namespace=job.namespace)


def _delete_parts(cluster: Cluster, job: str, namespace: str) -> Iterator[Deleted]:
    """The garbage collector would take them too; those of an apply that broke off have no owner yet."""
    maps = request(cluster, "GET", core_path("configmaps", namespace), query=own_selector(job)).object
    for each in maps.get("items", []):
        name = each["metadata"]["name"]
        _delete(cluster, core_path("configmaps", namespace, name), "Background")
        yield Deleted(kind="ConfigMap", name=name, namespace=namespace)


def _delete(cluster: Cluster, path: str, propagation: Propagation) -> None:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": propagation}
    try:
        request(cluster, "DELETE", path, body=body)
    except Refused as refused:
        if refused.code != 404:  # gone meanwhile: what was wanted
            raise

"""Reads one object of a cluster by kind and name, with any creator."""

from __future__ import annotations

import re

from k8sel.cluster import trouble
from k8sel.cluster.jobs import JobRef, get_job
from k8sel.cluster.rest import Cluster, Object, Refused, find
from k8sel.errors import ClusterError
from k8sel.facts.kinds import JOB_KINDS

_OTHERS = {"job": "/apis/batch/v1/namespaces/{}/jobs/{}", "pod": "/api/v1/namespaces/{}/pods/{}"}
_JOBS = {kind.lower(): kind for kind in JOB_KINDS}
_NAMED = re.compile(rf"({'|'.join((*_JOBS, *_OTHERS))})s?(?:\.[a-z0-9.]+)?/([a-z0-9][-a-z0-9.]*)", re.IGNORECASE)


def named(text: str) -> tuple[str, str] | None:
    """The kind and the name in `pytorchjob/NAME`; None for any other text."""
    match = _NAMED.fullmatch(text)
    return (match[1].lower(), match[2]) if match else None


def read(cluster: Cluster, kind: str, name: str) -> Object:
    """The object of this kind and name. Raises ClusterError if there is none."""
    if kind in _JOBS:
        return get_job(cluster, JobRef(name=name, kind=_JOBS[kind])).object
    try:
        found = find(cluster, _OTHERS[kind].format(cluster.namespace, name))
    except Refused as refused:
        raise trouble.clearly(cluster, refused) from None
    if found is None:
        raise ClusterError(
            f"{cluster.host}: no {kind} named {name} in namespace {cluster.namespace}. "
            f"See: kubectl get {kind}s -n {cluster.namespace}"
        )
    return found

"""Explains refusals that come from the cluster's state and not from the job file: rights, missing parts, webhooks."""

from __future__ import annotations

import re
from dataclasses import dataclass

from k8sel.cluster.rest import Cluster, Refused, find
from k8sel.errors import ClusterError
from k8sel.facts.kinds import JobKind

_RBAC = re.compile(
    r'cannot (?P<verb>\S+) resource "(?P<resource>[^"]+)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]+)")?'
)
_STARTING = "before all known HTTP paths have been installed"
_WEBHOOK = re.compile(r'failed calling webhook "(?P<name>[^"]+)": (?P<cause>.*)', re.DOTALL)
_SERVICE = re.compile(r"https://(?P<name>[\w-]+)\.(?P<namespace>[\w-]+)\.svc[:/.]")


@dataclass(frozen=True, kw_only=True, slots=True)
class Webhook:
    """An admission webhook that did not answer."""

    name: str
    service: str  # namespace/name, or "" if the webhook has no service
    cause: str

    def __str__(self) -> str:
        where = f" (service {self.service})" if self.service else ""
        return f"webhook {self.name}{where} does not answer: {self.cause}"


def webhook_down(refused: Refused) -> Webhook | None:
    """The webhook that did not answer; None if the refusal has another cause."""
    match = _WEBHOOK.search(refused.server_message)
    if refused.code != 500 or match is None:
        return None
    service = _SERVICE.search(match["cause"])
    return Webhook(
        name=match["name"],
        service=f"{service['namespace']}/{service['name']}" if service else "",
        cause=match["cause"].removeprefix("failed to call webhook: "),
    )


def general(cluster: Cluster, refused: Refused) -> ClusterError | None:
    """The error for causes that any request can have: credentials, rights, a missing namespace. Else None."""
    if refused.code == 401:
        return ClusterError(
            f"{cluster.host}: the credentials of context {cluster.context} are not accepted. "
            "Log in again, or choose another context"
        )
    if _STARTING in refused.server_message:
        return ClusterError(f"{cluster.host}: the API server is still starting. Try again in a moment")
    right = _RBAC.search(refused.server_message)
    if refused.code == 403 and right:
        return ClusterError(f"{cluster.host}: {refused.server_message}. {_role(right)}")
    if refused.code == 404 and (refused.status.get("details") or {}).get("kind") == "namespaces":
        name = refused.status["details"]["name"]
        return ClusterError(f"{cluster.host}: there is no namespace {name}. Create it: kubectl create namespace {name}")
    return None


def _role(right: re.Match[str]) -> str:
    """The request to an administrator."""
    scope = f"a Role in namespace {right['namespace']}" if right["namespace"] else "a ClusterRole"
    resource = right["resource"] + (f".{right['group']}" if right["group"] else "")
    return f"Ask for {scope} that allows {right['verb']} on {resource}"


def missing_kind(cluster: Cluster, kind: JobKind) -> ClusterError | None:
    """The error for a cluster without ``kind``; None if the cluster serves it."""
    served = find(cluster, kind.api_path) or {}
    if any(resource["name"] == kind.plural for resource in served.get("resources", [])):
        return None
    other = _other_version(cluster, kind)
    reason = f"it serves {kind.kind} as {other} only" if other else f"the {kind.operator} is not installed"
    return ClusterError(
        f"{cluster.host}: the cluster has no {kind.kind} ({kind.api_version}): {reason}. "
        f"Install the {kind.operator}, choose another `spec.target`, or another context"
    )


def _other_version(cluster: Cluster, kind: JobKind) -> str | None:
    """Another version of ``kind`` on the cluster: training-operator has MPIJob v1, mpi-operator has v2beta1."""
    group = find(cluster, f"/apis/{kind.group}") or {}
    for version in group.get("versions", []):
        served = find(cluster, f"/apis/{version['groupVersion']}") or {}
        if any(resource["name"] == kind.plural for resource in served.get("resources", [])):
            return str(version["groupVersion"])
    return None


def clearly(cluster: Cluster, refused: Refused, kind: JobKind | None = None) -> ClusterError:
    """Explains a refusal outside `apply` as well as possible."""
    missing = missing_kind(cluster, kind) if refused.code == 404 and kind is not None else None
    return missing or general(cluster, refused) or refused

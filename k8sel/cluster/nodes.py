"""How many devices the cluster's nodes have. Decides nothing."""

from __future__ import annotations

from k8sel.cluster.rest import Cluster, Object, Unreachable, request
from k8sel.errors import ClusterError

_PAGE = 500  # nodes: a large cluster's list is long


def sizes(cluster: Cluster, resource_name: str) -> list[int] | None:
    """The allocatable number of each node that takes pods and has the resource; None where nodes may not be listed."""
    try:
        return [size for node in _nodes(cluster) if (size := _size(node, resource_name))]
    except Unreachable:
        raise
    except ClusterError:  # nodes are cluster-wide: many may not list them, and this only advises
        return None


def _nodes(cluster: Cluster) -> list[Object]:
    found: list[Object] = []
    query = {"limit": str(_PAGE)}
    while True:
        page = request(cluster, "GET", "/api/v1/nodes", query=query).object
        found += page.get("items") or []
        more = page.get("metadata", {}).get("continue")
        if not more:
            return found
        query = {"limit": str(_PAGE), "continue": more}


def _size(node: Object, resource_name: str) -> int:
    """0 for a node that is closed to new pods."""
    if node.get("spec", {}).get("unschedulable"):
        return 0
    return int(node.get("status", {}).get("allocatable", {}).get(resource_name, 0))

"""Counts the devices of the cluster's nodes. Makes no decision."""

from __future__ import annotations

from k8sel.cluster.rest import Cluster, Object, Unreachable, request
from k8sel.errors import ClusterError

_PAGE = 500  # nodes per request: a large cluster's list is long


def sizes(cluster: Cluster, resource_name: str) -> list[int] | None:
    """The allocatable devices of each schedulable node that has any; None if the user may not list nodes."""
    try:
        return [size for node in _nodes(cluster) if (size := _size(node, resource_name))]
    except Unreachable:
        raise
    except ClusterError:  # nodes are cluster-wide: many users may not list them, and the result is only advice
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
    """The node's allocatable devices; 0 if the node is unschedulable."""
    if node.get("spec", {}).get("unschedulable"):
        return 0
    return int(node.get("status", {}).get("allocatable", {}).get(resource_name, 0))

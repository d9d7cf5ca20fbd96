"""Counts the devices of the cluster's nodes. Makes no decision."""

from __future__ import annotations

import re

from k8sel.cluster.rest import Cluster, Object, Unreachable, request
from k8sel.errors import ClusterError

_COUNT = re.compile("[0-9]{1,9}")


def sizes(cluster: Cluster, resource_name: str) -> list[int] | None:
    """The allocatable devices of each schedulable node that has any; None if the user may not list nodes."""
    try:
        nodes = request(cluster, "GET", "/api/v1/nodes").object["items"]
    except Unreachable:
        raise
    except ClusterError:  # nodes are cluster-wide: many users may not list them, and the result is only advice
        return None
    return [size for node in nodes if (size := _size(node, resource_name))]


def _size(node: Object, resource_name: str) -> int:
    """The node's allocatable devices; 0 if the node is unschedulable."""
    if node.get("spec", {}).get("unschedulable"):
        return 0
    allocatable = node.get("status", {}).get("allocatable", {}).get(resource_name, "0")
    return int(allocatable) if _COUNT.fullmatch(allocatable) else 0

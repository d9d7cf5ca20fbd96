"""The client of a cluster. It knows the server's API and errors, and makes no decision about a job.

The functions take plain data and return frozen dataclasses. They report progress through callbacks. Every failure is
a ClusterError that names the host, the cause and the next step. Only `connect` imports `kubernetes`.
"""

from __future__ import annotations

from k8sel.cluster.apply import Applied, Options, apply, pod_security
from k8sel.cluster.connect import connect
from k8sel.cluster.delete import Deleted, delete
from k8sel.cluster.follow import Outcome, wait
from k8sel.cluster.jobs import JobRef, variable
from k8sel.cluster.logs import LogLine, logs
from k8sel.cluster.pods import Failure, PodStatus
from k8sel.cluster.refusal import Refusal
from k8sel.cluster.rest import Cluster
from k8sel.cluster.status import Condition, Status, status

__all__ = [
    "Applied",
    "Cluster",
    "Condition",
    "Deleted",
    "Failure",
    "JobRef",
    "LogLine",
    "Options",
    "Outcome",
    "PodStatus",
    "Refusal",
    "Status",
    "apply",
    "connect",
    "delete",
    "logs",
    "pod_security",
    "status",
    "variable",
    "wait",
]

"""The names that Kubernetes derives from a job's name, and the labels and annotations that k8sel adds."""

from __future__ import annotations

LONGEST = 63  # a DNS label, a host name, a label value

LABEL_JOB = "k8sel.dev/job"
LABEL_MANAGED_BY = "app.kubernetes.io/managed-by"
ANNOTATION_JOB_FILE = "k8sel.dev/job-file-sha256"
MANAGER = "k8sel"
LABEL_QUEUE = "kueue.x-k8s.io/queue-name"  # Kueue reads the queue of a job there


def nodes(job: str, target: str | None, count: int) -> tuple[str, ...]:
    """The names of the pods that compute, by node rank; each is also a host name."""
    if target == "PyTorchJob":
        return (f"{job}-master-0", *(f"{job}-worker-{index}" for index in range(count - 1)))
    return tuple(f"{job}-worker-{index}" for index in range(count))


def pods(job: str, target: str | None, count: int) -> tuple[str, ...]:
    """The pod names of the job that must be DNS labels."""
    first = (launcher(job),) if target == "MPIJob" else ()
    return first + nodes(job, target, count)


def launcher(job: str) -> str:
    """The host name of an MPIJob's launcher."""
    return f"{job}-launcher"


def longest(job: str, target: str | None, count: int) -> str:
    """The longest of ``pods``, without a list of all."""
    last = f"{job}-worker-{count - 1 - (target == 'PyTorchJob')}"
    return max(*pods(job, target, 1), last if count > 1 else "", key=len)

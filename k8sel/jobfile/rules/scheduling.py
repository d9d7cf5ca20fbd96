"""Gang, network and what stays afterwards."""

from __future__ import annotations

from collections.abc import Iterator

from k8sel.errors import Problem
from k8sel.jobfile.rules.common import Rule
from k8sel.jobfile.spec import JobFile
from k8sel.wording import bare, invalid, warning

SCHEDULER = {"volcano": "volcano"}  # gang -> the only scheduler that forms it


def gang_has_its_scheduler(job: JobFile, door: str) -> Iterator[Problem]:
    """A gang is formed by its own scheduler."""
    scheduling = job.spec.scheduling
    needed = SCHEDULER.get(scheduling.gang or "")
    given = scheduling.scheduler_name
    if needed and given and given != needed:
        message = f"gang {scheduling.gang} is formed by the scheduler {needed}, not by {bare(given)}"
        yield invalid(("spec", "scheduling", "schedulerName"), message, "leave it out")


def gang_needs_its_operator(job: JobFile, door: str) -> Iterator[Problem]:
    """mpi-operator writes the gang's scheduler over the pods' own (pkg/controller/podgroup.go)."""
    scheduling = job.spec.scheduling
    if scheduling.gang == "coscheduling" and scheduling.scheduler_name and job.spec.target == "MPIJob":
        message = "mpi-operator writes the scheduler that it was started with"
        yield warning(("spec", "scheduling", "schedulerName"), message, "leave it out")


def own_network(job: JobFile, door: str) -> Iterator[Problem]:
    """On the node's own network two pods of one node want the same port."""
    if job.spec.host_network and (job.spec.nodes or 1) > 1:
        message = "two pods of this job, or of two jobs, on one node use the same ports and fail"
        yield warning(("spec", "hostNetwork"), message, "affinity that keeps them apart, or leave it out")


def pods_go(job: JobFile, door: str) -> Iterator[Problem]:
    """Pods that stay keep their devices."""
    if job.spec.policy.clean_pod_policy == "None":
        message = "pods that still run when the job has failed keep their devices"
        yield warning(("spec", "policy", "cleanPodPolicy"), message, "Running, which keeps the pods that have ended")


RULES: tuple[Rule, ...] = (gang_has_its_scheduler, gang_needs_its_operator, own_network, pods_go)

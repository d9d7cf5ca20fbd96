"""A job with every default filled in: the job file's fields, and None only where a field may really have no value.

No ``from __future__ import annotations``, as in ``spec.py``.
"""

from typing import Literal

from k8sel.facts.kinds import TargetName
from k8sel.jobfile.spec import Accelerator, Entrypoint, JobFile, Mpi, MpiName, Policy, Spec


class CompleteAccelerator(Accelerator, frozen=True, kw_only=True):
    """The devices, counted."""

    count: int
    devices: tuple[int, ...]
    order: Literal["pci", "fastest"]
    allocation: Literal["devicePlugin", "host"]
    isolation: Literal["node", "process"]
    zero: bool  # the file writes count: 0 for a type that has devices


class CompleteMpi(Mpi, frozen=True, kw_only=True):
    """The MPI settings that mpirun uses; with another launcher nothing reads them."""

    implementation: MpiName
    ssh_port: int
    ssh_auth_mount_path: str


class CompletePolicy(Policy, frozen=True, kw_only=True):
    """Retries, time limits and clean-up."""

    max_restarts: int
    backoff_limit: int
    clean_pod_policy: Literal["Running", "All", "None"]


class CompleteEntrypoint(Entrypoint, frozen=True, kw_only=True):
    """The check before training."""

    mode: Literal["configMap", "image", "none"]
    check: Literal["enforce", "warn", "off"]


class CompleteSpec(Spec, frozen=True, kw_only=True):
    """The command, its launcher and its devices."""

    target: TargetName
    nodes: int
    processes_per_node: int
    accelerator: CompleteAccelerator
    mpi: CompleteMpi
    mpi_given: bool  # the file has MPI settings, even if they only repeat the defaults
    policy: CompletePolicy
    entrypoint: CompleteEntrypoint


class CompleteJob(JobFile, frozen=True, kw_only=True):
    """A job file with every default filled in."""

    spec: CompleteSpec

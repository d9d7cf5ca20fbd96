"""A job, decided: the shape of a plan. ``k8sel.planning.planner`` makes it.

Emitters write a JobPlan down, `k8sel plan` shows it, and the entrypoint gets its expectation. In JSON the fields are
camelCase.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from k8sel.entrypoint.protocol import Expectation
from k8sel.errors import Problem

Argv = tuple[str, ...]
Fragment = Mapping[str, Any]  # a part of a Kubernetes object, as the user wrote it


class Rank(Struct, frozen=True, kw_only=True, rename="camel"):
    """One process."""

    rank: int
    local_rank: int
    devices: tuple[int, ...]  # positions that it sees, in its own order; () for none
    device: int | None  # the position it drives: its first own one; None for none


class Node(Struct, frozen=True, kw_only=True, rename="camel"):
    """One pod that computes."""

    name: str  # the pod's name, which is its host name too
    node_rank: int
    ranks: tuple[Rank, ...]


class Devices(Struct, frozen=True, kw_only=True, rename="camel"):
    """What one node asks for, and what its processes see of it."""

    type: str  # the row's name
    resource_name: str | None  # extended resource to request; None: none is requested
    count: int  # devices exposed in a container (or requested)
    exposed: tuple[int, ...]  # the host's numbers of those exposed, ascending; () where something else picks
    exposure_env: Mapping[str, str]  # written into the pod beside no request: the host's numbers, or the hiding values
    hide_env: Mapping[str, str]  # hides every vendor's devices: for launcher pods and jobs without devices
    positions: tuple[int, ...]  # container-local, in local-rank order
    mask_env: Mapping[str, str]  # the mask by position, for entrypoint.mode none, and what `plan` shows
    product: tuple[str, ...]
    product_label: str | None
    memory: int | None  # bytes that each has, at least
    memory_label: str | None
    tolerations: tuple[Fragment, ...]


class MpiPlan(Struct, frozen=True, kw_only=True, rename="camel"):
    """What an MPI job needs beyond its command."""

    implementation: str
    binding: str | None  # none, socket, numa or core; None: not asked
    slots_per_worker: int
    ssh_port: int
    ssh_auth_mount_path: str
    sshd: Argv  # the workers' command
    launcher_pod: Fragment  # as `pod` and `container` of the job, for the pod that runs mpirun
    launcher_container: Fragment


class JobPlan(Struct, frozen=True, kw_only=True, rename="camel"):
    """A job, decided."""

    name: str
    namespace: str | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    target: Literal["PyTorchJob", "MPIJob"]
    launcher: str
    image: str
    nodes: tuple[Node, ...]
    processes_per_node: int
    devices: Devices
    expectation: Expectation
    entrypoint_mode: Literal["configMap", "image", "none"]
    launch: Argv  # the launcher's command around the user's, without the entrypoint in front of it
    command: Argv  # the whole command: literal words, which emitters escape, and env.Reference
    env: tuple[Fragment, ...]  # Kubernetes EnvVars in their final order, all but the expectation
    oneccl: tuple[str, ...]  # those of them that are oneCCL's; () where the backend does without
    mpi: MpiPlan | None
    pod: Fragment  # pod-level fields of the job file, defaulted: volumes, nodeSelector, affinity, ...
    container: Fragment  # container-level fields: resources, securityContext, volumeMounts, ...
    shared_memory: str | None
    queue: str | None
    priority_class_name: str | None
    gang: str | None
    scheduler_name: str | None
    max_restarts: int
    backoff_limit: int
    active_deadline_seconds: int | None
    ttl_seconds_after_finished: int | None
    clean_pod_policy: str
    warnings: tuple[Problem, ...]

    @property
    def world_size(self) -> int:
        """Processes of the whole job."""
        return len(self.nodes) * self.processes_per_node

"""The shape of a plan: a job with every decision made. ``k8sel.planning.planner`` creates it.

Emitters write a JobPlan as objects, `k8sel plan` shows it, and the entrypoint gets its expectation. In JSON the fields
are camelCase.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from msgspec import Struct

from k8sel.entrypoint.protocol import Expectation
from k8sel.errors import Problem
from k8sel.facts.kinds import TargetName

Argv = tuple[str, ...]
Fragment = Mapping[str, Any]  # a part of a Kubernetes object, as the user wrote it


class Rank(Struct, frozen=True, kw_only=True, rename="camel"):
    """One process."""

    rank: int
    local_rank: int
    devices: tuple[int, ...]  # positions that it sees, in its own order; () if none
    device: int | None  # the position that it uses: the first of its own; None if none


class Node(Struct, frozen=True, kw_only=True, rename="camel"):
    """One pod that computes."""

    name: str  # the pod's name, which is its host name too
    node_rank: int
    ranks: tuple[Rank, ...]


class Devices(Struct, frozen=True, kw_only=True, rename="camel"):
    """The devices that one node requests, and the devices that its processes see."""

    type: str  # the row's name
    resource_name: str | None = None  # extended resource to request; None: no request
    count: int  # devices exposed in a container (or requested)
    exposed: tuple[int, ...] = ()  # host's numbers of the exposed devices, ascending; () if none is exposed by number
    exposure_env: Mapping[str, str] = {}  # for pods without a request: the host's numbers, or values that hide
    hide_env: Mapping[str, str]  # hides every vendor's devices: for launcher pods and jobs without devices
    positions: tuple[int, ...]  # container-local, in local-rank order
    mask_env: Mapping[str, str]  # the mask by position, for entrypoint.mode none, and what `plan` shows
    product: tuple[str, ...] = ()
    product_label: str | None = None
    memory: int | None = None  # bytes that each device has, at least
    memory_label: str | None = None
    tolerations: tuple[Fragment, ...] = ()


class MpiPlan(Struct, frozen=True, kw_only=True, rename="camel"):
    """The fields that an MPI job needs in addition to its command."""

    implementation: str
    binding: str | None  # none, socket, numa or core; None: not set
    slots_per_worker: int
    ssh_port: int
    ssh_auth_mount_path: str
    sshd: Argv  # the workers' command
    launcher_pod: Fragment  # like `pod` of the job, for the pod that runs mpirun
    launcher_container: Fragment


class JobPlan(Struct, frozen=True, kw_only=True, rename="camel"):
    """A job with every decision made."""

    name: str
    namespace: str | None
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    target: TargetName
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
    oneccl: tuple[str, ...]  # names of oneCCL's variables in env; () without oneCCL
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
        """The number of processes of the whole job."""
        return len(self.nodes) * self.processes_per_node

"""The job file as the user writes it: frozen models, which define its fields.

They decode the file, and make the JSON Schema for editors and for the chart (docs/decisions/0001). Field names are the
public interface; keys are camelCase in the file. None means that the file leaves the field out. A constant default
stands here; ``defaults.py`` computes those that depend on other fields, and returns a ``CompleteJob``.

No ``from __future__ import annotations``: msgspec needs the types themselves, and would compile each from its text.
"""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from k8sel.facts.kinds import TargetName

API_VERSION = "k8sel.dev/v1alpha1"
KIND = "AcceleratedJob"

LauncherName = Literal["torchrun", "accelerate", "deepspeed", "mpirun", "python"]
MpiName = Literal["OpenMPI", "Intel", "MPICH"]

Dns1035 = Annotated[
    str,
    Meta(
        pattern=r"^[a-z]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
        description="Lower-case letters, digits and '-'; starts with a letter, ends with a letter or digit.",
    ),
]
Dns1123 = Annotated[
    str,
    Meta(
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
        max_length=63,
        description="Lower-case letters, digits and '-'; starts and ends with a letter or digit.",
    ),
]
Quantity = Annotated[
    int | float | str,
    Meta(description="A Kubernetes quantity: a number or a string such as 500m, 16Gi.", examples=["16Gi", 8]),
]
INT32 = 2**31 - 1  # the largest value of most numbers in Kubernetes
Positive = Annotated[int, Meta(ge=1, le=INT32)]
NotNegative = Annotated[int, Meta(ge=0, le=INT32)]
MAX_PER_NODE = 1024  # devices or processes of one node: more than any machine has, and few enough to list
# Defaults that depend on the launcher or the backend; a rule refuses these fields where neither reads them. So their
# models have None, which tells a field that is left out from one that repeats the default.
MPI: MpiName = "OpenMPI"
SSH_PORT = 2222
CCL_WORKERS = 1  # oneCCL's own default


class _Model(Struct, frozen=True, forbid_unknown_fields=True, rename="camel", omit_defaults=True):
    """The base of every part of the job file: immutable, camelCase, no unknown keys."""


class Metadata(_Model, frozen=True, kw_only=True):
    """Name, namespace, labels and annotations."""

    name: Annotated[Dns1035, Meta(description="The job's name. The pod names made from it have at most 63 characters.")]
    namespace: Annotated[Dns1123, Meta(description="Default: the current context's namespace.")] | None = None
    labels: Annotated[dict[str, str], Meta(description="Labels of the job and of its pods.")] = {}
    annotations: Annotated[dict[str, str], Meta(description="Annotations of the job.")] = {}


class Accelerator(_Model, frozen=True, kw_only=True):
    """The type, the number and the order of the devices."""

    type: Annotated[
        str,
        Meta(
            description="A row of the accelerator table; `auto` and `mps` only for `k8sel run` and `k8sel devices`.",
            examples=["cuda", "cpu"],
        ),
    ]
    count: Annotated[int, Meta(ge=0, le=MAX_PER_NODE, description="Devices to request on each node.")] | None = None
    devices: Annotated[
        tuple[Annotated[int, Meta(ge=0, le=MAX_PER_NODE - 1)], ...] | None,
        Meta(
            description="Devices to use, in this order: local rank r gets devices[r]. [] means none.",
            examples=[[2, 0]],
        ),
    ] = None
    order: Annotated[
        Literal["pci", "fastest"] | None,
        Meta(description="How `devices` are numbered; `fastest` only for types that have it."),
    ] = "pci"
    product: Annotated[
        tuple[Annotated[str, Meta(min_length=1)], ...],
        Meta(
            description="Exact values of the vendor's product label; checked again in the container.",
            examples=[["NVIDIA-H100-80GB-HBM3"]],
        ),
    ] = ()
    memory: Annotated[
        Quantity | None,
        Meta(
            description="Memory that each device must have, at least; checked in the container. "
            "Vendors count other gigabytes: a card of 80 GB has about 79.6Gi.",
            examples=["40Gi"],
        ),
    ] = None
    resource: Annotated[
        str | None,
        Meta(description="Extended resource instead of the row's own (MIG, shared, partitions)."),
    ] = None
    allocation: Annotated[
        Literal["devicePlugin", "host"] | None,
        Meta(description="Who chooses the devices: the device plugin, or the numbers in this file."),
    ] = "devicePlugin"
    isolation: Annotated[
        Literal["node", "process"] | None,
        Meta(description="node: each process sees all of `devices`; process: only its own consecutive share."),
    ] = "node"


class Cpu(_Model, frozen=True, kw_only=True):
    """Processes and threads on the machine's CPUs."""

    process_per: Annotated[
        Literal["socket", "numa"] | None,
        Meta(
            description="One process for each CPU socket or NUMA node of this machine, instead of "
            "processesPerNode; for `run` and `docker`, which know the machine. Their default is socket."
        ),
    ] = None
    threads_per_process: Annotated[
        Positive | None,
        Meta(description="OMP_NUM_THREADS; default: the cores of the process minus oneCCL's workers."),
    ] = None


class Ccl(_Model, frozen=True, kw_only=True):
    """Settings of oneCCL, for backends that use it: each field sets one of oneCCL's variables."""

    workers: (
        Annotated[
            Positive,
            Meta(
                description="CCL_WORKER_COUNT: threads of each process.",
                extra_json_schema={"default": CCL_WORKERS},
            ),
        ]
        | None
    ) = None
    worker_affinity: (
        Annotated[
            str,
            Meta(
                pattern=r"^(auto|[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*)$",
                description="CCL_WORKER_AFFINITY: auto, or a core for each worker of the node.",
                examples=["auto", "0,24"],
            ),
        ]
        | None
    ) = None
    transport: Annotated[
        Literal["mpi", "ofi"] | None,
        Meta(description="CCL_ATL_TRANSPORT; default: mpi by mpirun of Intel MPI and MPICH, else ofi."),
    ] = None
    provider: (
        Annotated[str, Meta(pattern="^[a-z][a-z0-9_;-]*$", description="FI_PROVIDER of libfabric.", examples=["tcp"])]
        | None
    ) = None
    interface: (
        Annotated[
            str,
            Meta(
                pattern="^[A-Za-z0-9][-_.:A-Za-z0-9]{0,14}$",
                description="CCL_KVS_IFACE: the network where processes find each other.",
                examples=["eth0"],
            ),
        ]
        | None
    ) = None
    log_level: Annotated[
        Literal["error", "warn", "info", "debug", "trace"] | None, Meta(description="CCL_LOG_LEVEL.")
    ] = None


class EnvVar(_Model, frozen=True, kw_only=True):
    """One environment variable, as in Kubernetes."""

    name: Annotated[str, Meta(pattern=r"^[-._a-zA-Z][-._a-zA-Z0-9]*$", description="The variable's name.")]
    value: Annotated[str, Meta(description="Its value: a string, so put numbers in quotes.")] | UnsetType = UNSET
    value_from: Annotated[
        dict[str, Any] | UnsetType, Meta(description="Source of its value, as in a pod: a secret, a field, ...")
    ] = UNSET


class Mpi(_Model, frozen=True, kw_only=True):
    """MPI settings; only with launcher mpirun."""

    implementation: (
        Annotated[MpiName, Meta(description="The MPI in the image.", extra_json_schema={"default": MPI})] | None
    ) = None
    binding: Annotated[
        Literal["none", "socket", "numa", "core"] | None,
        Meta(
            description="Binds each process: to a CPU socket or a NUMA node, in turn; core: to as many cores as "
            "threadsPerProcess and oneCCL's workers need. Default: none; Intel MPI then binds in its own way."
        ),
    ] = None
    ssh_port: (
        Annotated[int, Meta(ge=1, le=65535, description="Port of sshd.", extra_json_schema={"default": SSH_PORT})]
        | None
    ) = None
    ssh_auth_mount_path: (
        Annotated[
            str,
            Meta(
                pattern="^/.+",
                description="Folder of the ssh keys; default: .ssh of root, or of mpiuser for a non-root job.",
            ),
        ]
        | None
    ) = None


class Scheduling(_Model, frozen=True, kw_only=True):
    """Queue, priority and gang."""

    queue: Annotated[str, Meta(min_length=1, max_length=63, description="Kueue's LocalQueue.")] | None = None
    priority_class_name: Annotated[str, Meta(min_length=1, description="PriorityClass of the pods.")] | None = None
    gang: Annotated[
        Literal["volcano", "coscheduling"] | None, Meta(description="All pods of the job start together, or none.")
    ] = None
    scheduler_name: Annotated[str, Meta(min_length=1, description="Scheduler of the pods.")] | None = None


class Policy(_Model, frozen=True, kw_only=True):
    """Retries, time limits and clean-up."""

    max_restarts: Annotated[
        NotNegative | None, Meta(description="Restarts of the processes on a node, by torchrun.")
    ] = 0
    backoff_limit: Annotated[NotNegative, Meta(description="Restarts of the job's pods.")] | None = 0
    active_deadline_seconds: Annotated[Positive, Meta(description="Seconds after which the job fails.")] | None = None
    ttl_seconds_after_finished: Annotated[
        NotNegative | None, Meta(description="Seconds after which the finished job is deleted.")
    ] = None
    clean_pod_policy: Annotated[
        Literal["Running", "All", "None"] | None,
        Meta(
            description="Pods to delete when the job ends; Running frees a failed job's devices, None keeps all logs."
        ),
    ] = "Running"


class Entrypoint(_Model, frozen=True, kw_only=True):
    """The check before training."""

    mode: Annotated[
        Literal["configMap", "image", "none"] | None,
        Meta(description="Where the entrypoint is: in a ConfigMap or in the image; none: no entrypoint, no check."),
    ] = "configMap"
    check: Annotated[Literal["enforce", "warn", "off"], Meta(description="Effect of a mismatch.")] | None = None


class Spec(_Model, frozen=True, kw_only=True):
    """The command, its launcher and its devices."""

    image: Annotated[str, Meta(min_length=1, description="Container image; `k8sel run` does not use it.")] | None = None
    command: Annotated[
        tuple[str, ...],
        Meta(min_length=1, description="The program and its arguments, as on one device; k8sel adds the launcher."),
    ]
    launcher: Annotated[LauncherName, Meta(description="Program that starts the processes as one group.")]
    target: Annotated[TargetName, Meta(description="Kind of the job; default: the launcher's.")] | None = None
    nodes: Annotated[int, Meta(ge=1, le=10_000, description="Number of pods that compute.")] | None = 1
    processes_per_node: (
        Annotated[int, Meta(ge=1, le=MAX_PER_NODE, description="Default: the number of devices.")] | None
    ) = None
    accelerator: Annotated[Accelerator, Meta(description="The type, the number and the order of the devices.")]
    backend: Annotated[
        str | None,
        Meta(
            description="torch.distributed's backend that the command uses: checked against the image's versions. "
            "Default: the value of --ddp_backend in the command.",
            examples=["gloo", "ccl"],
        ),
    ] = None
    ccl: Annotated[Ccl, Meta(description="Settings of oneCCL; only with a backend that uses it.")] = Ccl()
    cpu: Annotated[Cpu, Meta(description="Processes and threads on the machine's CPUs.")] = Cpu()
    resources: Annotated[
        dict[str, Quantity],
        Meta(description="Requests and limits, by resource name.", examples=[{"cpu": "8", "memory": "64Gi"}]),
    ] = {}
    shared_memory: Annotated[Quantity, Meta(description="Size of /dev/shm; counts as memory.")] | None = None
    env: Annotated[
        tuple[EnvVar, ...], Meta(description="As in a pod; names that k8sel or an operator writes are refused.")
    ] = ()
    working_dir: Annotated[str, Meta(min_length=1, description="Folder in which the command runs.")] | None = None
    volumes: Annotated[tuple[dict[str, Any], ...], Meta(description="As in a pod.")] = ()
    volume_mounts: Annotated[tuple[dict[str, Any], ...], Meta(description="As in a container.")] = ()
    image_pull_policy: Annotated[
        Literal["Always", "IfNotPresent", "Never"] | None, Meta(description="As in a container.")
    ] = None
    image_pull_secrets: Annotated[tuple[dict[str, str], ...], Meta(description="As in a pod.")] = ()
    service_account_name: Annotated[str, Meta(min_length=1, description="As in a pod.")] | None = None
    runtime_class_name: (
        Annotated[
            str,
            Meta(
                min_length=1,
                description="As in a pod: the nodes' container runtime. Host allocation may need it.",
                examples=["nvidia"],
            ),
        ]
        | None
    ) = None
    security_context: Annotated[dict[str, Any], Meta(description="The container's, as in Kubernetes.")] = {}
    pod_security_context: Annotated[dict[str, Any], Meta(description="The pod's, as in Kubernetes.")] = {}
    node_selector: Annotated[dict[str, str], Meta(description="Labels of the nodes that may run it.")] = {}
    affinity: Annotated[dict[str, Any], Meta(description="As in a pod.")] = {}
    tolerations: Annotated[tuple[dict[str, Any], ...], Meta(description="As in a pod.")] = ()
    host_network: Annotated[bool, Meta(description="As in a pod: the node's own network.")] | None = None
    mpi: Annotated[Mpi, Meta(description="MPI settings; only with launcher mpirun.")] = Mpi()
    scheduling: Annotated[Scheduling, Meta(description="Queue, priority and gang.")] = Scheduling()
    policy: Annotated[Policy, Meta(description="Retries, time limits and clean-up.")] = Policy()
    entrypoint: Annotated[Entrypoint, Meta(description="The check before training.")] = Entrypoint()


class JobFile(_Model, frozen=True, kw_only=True):
    """A whole job file."""

    api_version: Annotated[Literal["k8sel.dev/v1alpha1"], Meta(description="Version of this file format.")]
    kind: Annotated[Literal["AcceleratedJob"], Meta(description="Kind of this file.")]
    metadata: Annotated[Metadata, Meta(description="Name, namespace, labels and annotations.")]
    spec: Annotated[Spec, Meta(description="The command, its launcher and its devices.")]


def decode(data: object) -> JobFile:
    """Returns the models of ``data`` (plain dicts and lists). Raises msgspec.ValidationError at the first problem."""
    return msgspec.convert(data, JobFile)

"""Turns a node of a JobPlan into one Docker container. Pure: it knows neither the daemon nor its client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from k8sel.entrypoint.protocol import VARIABLE
from k8sel.facts.accelerators import Row
from k8sel.jobfile.quantity import amount
from k8sel.planning import env
from k8sel.planning.devices import exposing
from k8sel.planning.launch import FOLDER
from k8sel.planning.plan import Fragment, JobPlan, Node

MASTER_PORT = "23456"  # the training-operator's own default for a PyTorchJob
CAPABILITY = "gpu"  # every driver of a device request has it; `docker run --gpus` asks for it
MEBIBYTE = 2**20
UNLIMITED = -1
# NVIDIA's images ask for these limits. Collective libraries of other vendors need them too: they pin memory.
ULIMITS = (("memlock", UNLIMITED), ("stack", 64 * MEBIBYTE))
CDI = "cdi"  # the driver of requests for CDI devices: moby/moby daemon/cdi.go
APPARMOR = {"Unconfined": "apparmor=unconfined", "Localhost": "apparmor={localhostProfile}"}


class Mount(Struct, frozen=True, kw_only=True):
    """A folder or file of the host in a container."""

    source: str
    target: str
    read_only: bool


class Host(Struct, frozen=True, kw_only=True):
    """The facts about this machine that the emitter needs."""

    entrypoint: str | None  # the folder with the entrypoint; None: the image has it built in
    nodes: Mapping[str, tuple[str, ...]]  # the table's pattern -> this machine's device nodes, in the order of numbers
    groups: Mapping[str, int]  # device node -> the group that may use it
    order: tuple[int, ...] = ()  # the vendor's number of each device, by k8sel's number; (): the same
    cdi: Mapping[int, str] | None = None  # device -> the name of its CDI device; None: not by CDI
    root: str = ""  # the folder of a test machine's device nodes


class _Exposure(Struct, frozen=True, kw_only=True):
    """The way in which chosen devices enter a container."""

    driver: str | None = None
    device_ids: tuple[str, ...] = ()
    devices: tuple[str, ...] = ()
    runtime: str | None = None
    env: Mapping[str, str] = {}


class Container(Struct, frozen=True, kw_only=True):
    """One container with all its settings, by Docker's names."""

    name: str  # the node's name and host name
    image: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    driver: str | None  # of the request for `device_ids`
    device_ids: tuple[str, ...]  # the host's numbers, ascending, or CDI names
    devices: tuple[str, ...]  # device nodes, each as NODE or as SOURCE:NODE
    runtime: str | None
    shm_size: int | None
    ulimits: tuple[tuple[str, int], ...]
    mounts: tuple[Mount, ...]
    user: str | None
    not_root: bool  # the image's own user must not be root
    group_add: tuple[str, ...]
    workdir: str | None
    network: str | None  # None: Docker's own default
    init: bool
    labels: Mapping[str, str]
    cap_add: tuple[str, ...]
    cap_drop: tuple[str, ...]
    security_opt: tuple[str, ...]
    sysctls: Mapping[str, str]
    privileged: bool
    read_only: bool
    nano_cpus: int | None
    memory: int | None


def emit(plan: JobPlan, row: Row, node: Node, host: Host) -> Container:
    """Makes the container of ``node``."""
    numbers = exposed(plan, node)
    nodes = _device_nodes(row, numbers, host)
    way = _exposure(row, numbers, nodes, host)
    variables = _env(plan, row, node, way)
    limits: Mapping[str, str] = plan.container.get("resources", {}).get("limits", {})
    security: Mapping[str, Any] = {**plan.pod.get("securityContext", {}), **plan.container.get("securityContext", {})}
    shared = amount(plan.shared_memory) if plan.shared_memory else None
    return Container(
        name=node.name,
        image=plan.image,
        command=tuple(_word(word, variables) for word in plan.command),
        env=variables,
        driver=way.driver,
        device_ids=way.device_ids,
        devices=way.devices,
        runtime=way.runtime,
        shm_size=int(shared) if shared else None,
        ulimits=ULIMITS if numbers else (),
        mounts=_mounts(plan, host),
        user=_user(security),
        not_root=security.get("runAsNonRoot") is True and security.get("runAsUser") is None,
        group_add=_groups(security, nodes, host),
        workdir=plan.container.get("workingDir"),
        network=own_network(plan) or ("host" if plan.pod.get("hostNetwork") else None),
        init=True,  # process 1 gets no SIGTERM without a handler for it
        labels=plan.labels,
        cap_add=_each_once(security.get("capabilities", {}).get("add", ()), row.docker_cap_add if numbers else ()),
        cap_drop=tuple(security.get("capabilities", {}).get("drop", ())),
        security_opt=tuple(_security_options(security)),
        sysctls={each["name"]: each["value"] for each in security.get("sysctls", ())},
        privileged=bool(security.get("privileged")),
        read_only=bool(security.get("readOnlyRootFilesystem")),
        nano_cpus=_scaled(limits.get("cpu"), 10**9),
        memory=_scaled(limits.get("memory"), 1),
    )


def exposed(plan: JobPlan, node: Node) -> tuple[int, ...]:
    """The host's numbers of the node's devices. Nodes on one machine use consecutive blocks of numbers."""
    return tuple(number + node.node_rank * plan.devices.count for number in plan.devices.exposed)


def own_network(plan: JobPlan) -> str | None:
    """The name of the job's own network, which lives as long as the job; None for one node."""
    return f"{plan.name}-k8sel" if len(plan.nodes) > 1 else None


def _exposure(row: Row, numbers: tuple[int, ...], nodes: tuple[str, ...], host: Host) -> _Exposure:
    """Exposes devices by CDI if the host requests it, else by the row's way."""
    if not numbers:
        return _Exposure()
    if host.cdi is not None:
        return _Exposure(driver=CDI, device_ids=tuple(host.cdi[number] for number in numbers))
    if row.docker_runtime:
        exposure = exposing(row.exposure_env, sorted(_vendors_own(numbers, host)))
        return _Exposure(runtime=row.docker_runtime, env=exposure)
    requested = tuple(map(str, numbers)) if row.docker_driver else ()
    devices = tuple(f"{host.root}{node}:{node}" if host.root else node for node in nodes)
    return _Exposure(driver=row.docker_driver, device_ids=requested, devices=devices)


def _vendors_own(numbers: Iterable[int], host: Host) -> Iterable[int]:
    """The runtime's numbers. A missing device keeps its number, so that the entrypoint reports it."""
    return (host.order[number] if number < len(host.order) else number for number in numbers)


def _env(plan: JobPlan, row: Row, node: Node, way: _Exposure) -> dict[str, str]:
    """The variables of a node, with the group's variables that an operator would set."""
    expectation = {VARIABLE: plan.expectation.to_json()} if plan.entrypoint_mode != "none" else {}
    values = {**env.resolve(plan.env), **_group(plan, node), **expectation}
    if plan.devices.exposed:  # `way` sets the variable itself, or nothing reads it
        values.pop(row.exposure_env or "", None)
        values |= {**row.docker_env, **way.env}
    return values


def _group(plan: JobPlan, node: Node) -> dict[str, str]:
    """The group's variables, as in training-operator's pkg/controller.v1/pytorch/envvar.go; none for mpirun."""
    if plan.mpi:
        return {}
    first = plan.nodes[0].name if len(plan.nodes) > 1 else "127.0.0.1"
    return {
        "PYTHONUNBUFFERED": "1",
        "MASTER_ADDR": first,
        "MASTER_PORT": MASTER_PORT,
        "RANK": str(node.node_rank),
        "WORLD_SIZE": str(plan.world_size),
        "PET_NNODES": str(len(plan.nodes)),
        "PET_NODE_RANK": str(node.node_rank),
        "PET_NPROC_PER_NODE": str(plan.processes_per_node),
        "PET_MASTER_ADDR": first,
        "PET_MASTER_PORT": MASTER_PORT,
    }


def _word(word: str, variables: Mapping[str, str]) -> str:
    """Resolves a reference such as $(NAME): Kubernetes does it, Docker does not."""
    return env.filled(word, variables) if isinstance(word, env.Reference) else word


def _device_nodes(row: Row, numbers: Iterable[int], host: Host) -> tuple[str, ...]:
    wanted = tuple(numbers)
    found = [path for pattern in row.docker_nodes if wanted for path in _matching(pattern, wanted, host)]
    return tuple(dict.fromkeys(found))


def _matching(pattern: str, numbers: tuple[int, ...], host: Host) -> Iterable[str]:
    """The device nodes of these numbers. A missing device keeps its number, for the message."""
    if "{n}" in pattern:
        return [pattern.format(n=number) for number in numbers]
    if "*" not in pattern:
        return [pattern]
    here = host.nodes.get(pattern, ())
    return [here[number] if number < len(here) else f"{pattern}[{number}]" for number in numbers]


def _mounts(plan: JobPlan, host: Host) -> tuple[Mount, ...]:
    paths = {volume["name"]: volume["hostPath"]["path"] for volume in plan.pod.get("volumes", ())}
    own = [Mount(source=host.entrypoint, target=FOLDER, read_only=True)] if host.entrypoint else []
    return (*(_mount(paths[mount["name"]], mount) for mount in plan.container.get("volumeMounts", ())), *own)


def _mount(path: str, mount: Fragment) -> Mount:
    below = f"{path.rstrip('/')}/{mount['subPath']}" if mount.get("subPath") else path
    return Mount(source=below, target=mount["mountPath"], read_only=bool(mount.get("readOnly")))


def _user(security: Fragment) -> str | None:
    """User and group as numbers; None, the image's own user, if the file sets none."""
    user, group = security.get("runAsUser"), security.get("runAsGroup")
    if user is None:
        return None
    return str(user) if group is None else f"{user}:{group}"


def _groups(security: Fragment, nodes: Iterable[str], host: Host) -> tuple[str, ...]:
    """The file's groups and the groups of the device nodes, so that a program that is not root can open them.

    An fsGroup becomes only a group: on Kubernetes too, a host folder keeps its owner.
    """
    own = [security["fsGroup"]] if "fsGroup" in security else []
    needed = (host.groups[node] for node in nodes if node in host.groups)
    return _each_once(map(str, (*security.get("supplementalGroups", ()), *own, *needed)))


def _security_options(security: Fragment) -> Iterator[str]:
    """Docker's security options. RuntimeDefault profiles are Docker's default, so they need no option."""
    seccomp, apparmor = security.get("seccompProfile", {}), security.get("appArmorProfile", {})
    if security.get("allowPrivilegeEscalation") is False:
        yield "no-new-privileges"
    if seccomp.get("type") == "Unconfined":
        yield "seccomp=unconfined"
    if apparmor.get("type") in APPARMOR:
        yield APPARMOR[apparmor["type"]].format(**apparmor)
    for part, value in security.get("seLinuxOptions", {}).items():
        yield f"label={part}:{value}"


def _each_once(*given: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word for words in given for word in words))


def _scaled(quantity: str | None, unit: int) -> int | None:
    number = amount(quantity) if quantity is not None else None
    return None if number is None else int(number * unit)

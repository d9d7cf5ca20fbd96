"""Traps of training on CPUs: threads, the binding of ranks, oneCCL's workers, backends that need MPI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal

from msgspec import Struct

from k8sel.adopt.manifest.reader import Container, Manifest, dig, number
from k8sel.adopt.manifest.started import Started
from k8sel.audit import mpi
from k8sel.audit.launching import processes_of_a_node, training
from k8sel.audit.trap import Found, trap
from k8sel.errors import FieldPath
from k8sel.facts.backends import BACKENDS, named, uses_oneccl
from k8sel.jobfile.quantity import amount

_AGENTS = ("torchrun", "accelerate", "accelerate-launch", "deepspeed")
_THREADS, _WORKERS, _AFFINITY = "OMP_NUM_THREADS", "CCL_WORKER_COUNT", "CCL_WORKER_AFFINITY"
_SENT = re.compile(r"((?:OMP|CCL)_[A-Z_]+)=(.*)")
_CORES = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_BINDS = ("-bind-to", "hwloc_base_binding_policy", "hwloc_default_binding_policy")
_ONE_CORE = re.compile(r"(slot|core|node|ppr:[0-9]+:node)?")  # maps that leave the binding to Open MPI
_CCL = "uxlfoundation/oneCCL"


class _Node(Struct, frozen=True, kw_only=True):
    """The processes of one node, with the variables and words that each of them gets."""

    processes: int
    variables: Mapping[str, str]
    words: Sequence[str]
    cpus: Decimal | None  # of the container; None where it has no limit
    path: FieldPath  # of the command that starts them

    @property
    def threads(self) -> int:
        """The computing threads of one process; 0 where their number is not given."""
        return number(self.variables.get(_THREADS)) or 0

    @property
    def workers(self) -> int:
        """oneCCL's own threads of one process."""
        return number(self.variables.get(_WORKERS)) or int(uses_oneccl(_backend(self.words)))


def _nodes(manifest: Manifest) -> Iterator[_Node]:
    """Yields each container that computes, where the number of its processes is known."""
    if manifest.kind == "MPIJob":
        yield from _of_mpi_job(manifest)
        return
    for _, container in training(manifest):
        starts = container.starts
        given = starts.option("--nproc-per-node", "--nproc_per_node") if starts else None
        processes = number(given or processes_of_a_node(manifest)[0]) if container.launches("torchrun") else 1
        if starts and processes:
            variables = {name: variable.value for name, variable in container.variables.items()}
            yield _node(container, processes, variables, starts.words, starts.path)


def _of_mpi_job(manifest: Manifest) -> Iterator[_Node]:
    """Yields the workers' containers, with the variables that the launcher sends to their ranks."""
    workers = [pods.containers[0] for pods in manifest.pods if pods.role == "Worker" and pods.containers]
    for _, launcher, starts in mpi.launchers(manifest):
        variables = {name: variable.value for name, variable in launcher.variables.items()} | _sent(starts.words)
        for container in workers:
            yield _node(container, manifest.slots, variables, starts.words, starts.path)


def _node(
    container: Container, processes: int, variables: Mapping[str, str], words: Sequence[str], path: FieldPath
) -> _Node:
    limit = dig(container.data, "resources", "limits", "cpu")
    cpus = amount(limit) if isinstance(limit, int | float | str) and not isinstance(limit, bool) else None
    return _Node(processes=processes, variables=variables, words=words, cpus=cpus, path=path)


def _sent(words: Sequence[str]) -> dict[str, str]:
    """Returns the variables in mpirun's own arguments: -x NAME=VALUE, -genv NAME VALUE."""
    joined = {match[1]: match[2] for word in words if (match := _SENT.fullmatch(word))}
    parted = zip(words, words[1:], words[2:], strict=False)
    return {name: value for option, name, value in parted if option in ("-genv", "-env")} | joined


def _backend(words: Sequence[str]) -> str | None:
    found = named(words)
    return found[1] if found else None


@trap(
    id="threads-beyond-cpus",
    looks_at="OMP_NUM_THREADS times the processes of a container beside its limits.cpu",
    consequence="the threads use up the container's CPU quota together, and all of them stop until its next period",
    fix="set OMP_NUM_THREADS to limits.cpu divided by the processes, less the backend's oneCCL workers",
    source="torvalds/linux Documentation/scheduler/sched-bwc.rst",
)
def _beyond_cpus(manifest: Manifest) -> Iterator[Found]:
    for node in _nodes(manifest):
        if node.cpus and node.threads * node.processes > node.cpus:
            threads = f"{node.processes} x {node.threads} threads"
            yield node.path, f"{threads}, and the container has {node.cpus} CPUs"


@trap(
    id="no-core-for-ccl-workers",
    looks_at="OMP_NUM_THREADS that takes all the container's CPUs, with a backend that uses oneCCL",
    consequence="oneCCL's workers take CPU time from computing threads, and the other threads wait for these",
    fix="lower OMP_NUM_THREADS by CCL_WORKER_COUNT: 23 and 1 on 24 cores",
    source=f"{_CCL} doc/rst/source/general-configuration/operation-execution.rst",
)
def _no_core_left(manifest: Manifest) -> Iterator[Found]:
    for node in _nodes(manifest):
        computing, all_of_them = node.threads, node.threads + node.workers
        if node.cpus and computing and computing * node.processes <= node.cpus < all_of_them * node.processes:
            shown = f"{node.processes} x {computing} threads and {node.processes} x {node.workers} workers of oneCCL"
            yield node.path, f"{shown}, and the container has {node.cpus} CPUs"


@trap(
    id="openmpi-binds-to-core",
    looks_at="MPIJob: Open MPI's mpirun with one or two ranks, several threads each, and no --bind-to",
    consequence="Open MPI binds up to two ranks to one core each, so a rank's threads share one core",
    fix="add --bind-to none, or --map-by socket --bind-to socket",
    source="open-mpi docs, mpirun(1); run with Open MPI 4.1.8 and 5.0.11",
)
def _bound_to_a_core(manifest: Manifest) -> Iterator[Found]:
    for _, container, starts in mpi.launchers(manifest):
        ranks = number(starts.option("-n", "-np", "--np")) or manifest.slots * manifest.nodes
        threads = number(_sent(starts.words).get(_THREADS) or _value(container, _THREADS)) or 0
        if (
            mpi.implementation(manifest) == "OpenMPI"
            and ranks <= 2
            and threads > 1
            and _binds_by_default(container, starts)
        ):
            yield starts.path, f"{starts.program} has no --bind-to, {ranks} ranks and {threads} threads for each"


def _binds_by_default(container: Container, starts: Started) -> bool:
    """Reports whether Open MPI itself chooses the binding of the ranks."""
    by_map = _ONE_CORE.fullmatch(starts.option("--map-by", "-map-by") or "")
    words = (*starts.words, *container.variables)
    return bool(by_map) and not any(name in word for word in words for name in _BINDS)


def _value(container: Container, name: str) -> str | None:
    variable = container.variables.get(name)
    return variable.value if variable else None


@trap(
    id="ccl-mpi-without-mpirun",
    looks_at="CCL_ATL_TRANSPORT=mpi where torch's agent starts the processes",
    consequence="without mpirun the processes share no MPI_COMM_WORLD, so oneCCL cannot make its communicator",
    fix="set CCL_ATL_TRANSPORT: ofi, or leave it out: without MPI's variables, ofi is the default",
    source=f"{_CCL} src/common/env/env_parser.cpp, src/atl/mpi/atl_mpi.cpp (comm_create)",
)
def _mpi_transport(manifest: Manifest) -> Iterator[Found]:
    for _, container in training(manifest):
        if container.launches(*_AGENTS) and _value(container, "CCL_ATL_TRANSPORT") == "mpi" and container.starts:
            path = container.variables["CCL_ATL_TRANSPORT"].path
            yield path, f"CCL_ATL_TRANSPORT=mpi, and {container.starts.program} starts the processes"


@trap(
    id="mpi-backend-without-mpirun",
    looks_at="--ddp_backend mpi where torch's agent starts the processes",
    consequence="published torch has no MPI and ends with an error; built with MPI, it makes each process a group",
    fix="use --ddp_backend gloo, or mpirun",
    source="pytorch docs, torch.distributed backends; torch/distributed/distributed_c10d.py (init_process_group)",
)
def _needs_mpi(manifest: Manifest) -> Iterator[Found]:
    for _, container in training(manifest):
        backend = BACKENDS.get(_backend(container.starts.words) or "") if container.starts else None
        if container.starts and backend and backend.launchers and container.launches(*_AGENTS):
            shown = f"backend {_backend(container.starts.words)}"
            yield container.starts.path, f"{shown}, and {container.starts.program} starts the processes"


@trap(
    id="ccl-cores-not-workers",
    looks_at="CCL_WORKER_AFFINITY with a list of cores",
    consequence="oneCCL ends with `failed to parse worker affinity`: the list must cover all workers of the node",
    fix="set auto, or as many cores as processes per node times CCL_WORKER_COUNT",
    source=f"{_CCL} src/common/env/env.cpp (env_2_worker_affinity)",
)
def _affinity_length(manifest: Manifest) -> Iterator[Found]:
    for node in _nodes(manifest):
        listed = _cores(node.variables.get(_AFFINITY, "auto"))
        wanted = node.processes * (number(node.variables.get(_WORKERS)) or 1)
        if listed is not None and listed != wanted:
            shown = f"{_AFFINITY}={node.variables[_AFFINITY]}"
            yield node.path, f"{shown}, and the {node.processes} processes of a node have {wanted} workers"


def _cores(text: str) -> int | None:
    """Returns how many cores a list has; None where it is not a list of cores."""
    matches = [_CORES.fullmatch(part) for part in text.split(",")]
    parts = [(int(match[1]), int(match[2] or match[1])) for match in matches if match]
    return sum(last - first + 1 for first, last in parts) if len(parts) == len(matches) else None

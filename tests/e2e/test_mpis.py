"""Real Intel MPI, MPICH and Open MPI 5 in pods: the guide's line on two nodes, and programs that call MPI."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml
from mpi.runtimes import PROGRAMS as MPI_PROGRAMS
from mpi.runtimes import Runtime, installed, shown

from cluster.client import Cluster
from e2e.jobs import PROGRAMS, apply_and_wait, job, trained

pytestmark = pytest.mark.cluster

# The guide's, for two nodes and four processes; its program is the tests' own, and its words are those of today.
GUIDE = """
 export CCL_WORKER_COUNT=1
 export MASTER_ADDR=192.0.2.1 #node0 ip
 mpirun -f hostfile -n 4 -ppn 2 \\
 -genv OMP_NUM_THREADS=23 \\
 python3 /programs/train.py \\
 --model_name_or_path google-bert/bert-large-uncased \\
 --learning_rate 3e-5  \\
 --output_dir /tmp/debug_squad/ \\
 --use_cpu \\
 --ddp_backend gloo \\
 --bf16
"""


# As oneAPI's, which says where its libraries are.
SETVARS = """
export I_MPI_ROOT=/mpi
export PATH=/mpi/bin:$PATH LD_LIBRARY_PATH=/mpi/lib
"""


def with_mpi(folder: Path, env: dict[str, str] | None = None) -> dict[str, Any]:
    """The fields of a job that finds the MPI of ``folder`` in its image."""
    found = {"PATH": "/mpi/bin:/usr/local/bin:/usr/bin:/bin", "LD_LIBRARY_PATH": "/mpi/lib"}
    folders = {"/programs": PROGRAMS, "/mpi-programs": MPI_PROGRAMS, "/mpi": folder}
    return {"launcher": "mpirun", "accelerator": {"type": "cpu"}, **variables(found | (env or {})), **mounted(folders)}


def variables(env: dict[str, str]) -> dict[str, Any]:
    return {"env": [{"name": name, "value": value} for name, value in env.items()]}


def mounted(folders: dict[str, Path]) -> dict[str, Any]:
    """This machine's ``folders``, by the paths that the containers see."""
    names = {path: f"folder-{number}" for number, path in enumerate(folders)}
    return {
        "volumes": [{"name": names[path], "hostPath": {"path": str(folders[path])}} for path in folders],
        "volumeMounts": [{"name": names[path], "mountPath": path} for path in folders],
    }


@pytest.mark.parametrize("implementation", ["Intel", "MPICH"])
def test_the_guides_line_trains_on_two_nodes(cluster: Cluster, namespace: str, mpis: Path, implementation: str) -> None:
    written = cluster.k8sel("from", "-q", "--name", "guide", "--image", cluster.images.base, "-", input=GUIDE).stdout
    spec = yaml.safe_load(written)["spec"]
    assert spec["mpi"] == {"implementation": "Intel"}
    added = with_mpi(mpis / implementation)
    spec |= {**added, "env": [*spec["env"], *added["env"]], "mpi": {"implementation": implementation}}

    applied = apply_and_wait(cluster, namespace, job("guide", cluster, **spec))
    log = cluster.k8sel("logs", "--no-follow", "guide", "-n", namespace).stdout
    assert applied.returncode == 0, applied.stderr + log
    ranks = trained(log)
    places = [("guide-worker-0", 0, 0), ("guide-worker-0", 1, 1), ("guide-worker-1", 2, 0), ("guide-worker-1", 3, 1)]
    assert [(rank.host, rank.rank, rank.local_rank) for rank in ranks] == places
    seen = {(rank.world_size, rank.sum, rank.threads, rank.ccl_workers, rank.master) for rank in ranks}
    assert seen == {(4, 6.0, "23", "1", "guide-worker-0.guide")}


# What the test machine has, as the kernel says it: cores and sockets, each a list of CPUs.
def _parts(name: str) -> list[list[int]]:
    """The CPUs of this machine that share ``name`` of their topology, in the order of the first."""
    parts: dict[tuple[str, ...], list[int]] = {}
    for cpu in sorted(os.sched_getaffinity(0)):
        topology = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
        key = tuple((topology / part).read_text().strip() for part in ("physical_package_id", name))
        parts.setdefault(key, []).append(cpu)
    return list(parts.values())


CORES, SOCKETS = _parts("core_id"), _parts("physical_package_id")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job of ``nodes`` x ``processes``, and the CPUs and threads that its local ranks get."""

    nodes: int
    processes: int
    runtime: str
    cpus: Callable[[int], list[int]]  # of a local rank
    threads: str | None = None
    mpi: dict[str, str] = field(default_factory=dict)
    spec: dict[str, Any] = field(default_factory=dict)
    env: dict[str, str] | None = field(default_factory=dict)  # None: only oneAPI's script says where the MPI is


# What a rank is, then its part of the sum. The file holds the environment of the rank's container, secrets and all.
RANK = """
python3 /mpi-programs/show.py /seen && stat -c "kept %a" /dev/shm/k8sel.?????? || exit
exec python3 /mpi-programs/reduce.py {library}
"""
# A field of the pod's own, and a value that is made of it.
OF_THE_POD = [
    {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
    {"name": "URL", "value": "tcp://$(POD)"},
]
ONE_THREAD: dict[str, Any] = {"cpu": {"threadsPerProcess": 1}}
CASES = {
    "one node, cores, not as root": Case(
        nodes=1,
        processes=2,
        runtime="Intel",
        cpus=lambda local: CORES[local],
        threads="1",
        mpi={"binding": "core"},
        spec={**ONE_THREAD, "podSecurityContext": {"runAsUser": 1000, "runAsGroup": 1000, "runAsNonRoot": True}},
    ),
    "two nodes, sockets, by oneAPI's script": Case(
        nodes=2,
        processes=2,
        runtime="Intel",
        cpus=lambda local: SOCKETS[local % len(SOCKETS)],
        mpi={"binding": "socket"},
        env=None,
    ),
    "four nodes, not bound, one core for oneCCL": Case(
        nodes=4,
        processes=1,
        runtime="Intel",
        cpus=lambda _: sorted(os.sched_getaffinity(0)),
        threads=str(max(1, len(CORES) - 1)),
        mpi={"binding": "none"},
        env={"CCL_WORKER_COUNT": "1"},
    ),
    "two nodes, cores, MPICH": Case(
        nodes=2,
        processes=2,
        runtime="MPICH",
        cpus=lambda local: CORES[local],
        threads="1",
        mpi={"binding": "core"},
        # The runtime's own seccomp profile leaves it to capabilities to bind memory, and to read another process's.
        spec={**ONE_THREAD, "securityContext": {"capabilities": {"add": ["SYS_NICE"]}}},
        env={"MPIR_CVAR_CH4_CMA_ENABLE": "0"},
    ),
    "two nodes, cores, Open MPI 5": Case(
        nodes=2,
        processes=2,
        runtime="OpenMPI",
        cpus=lambda local: CORES[local],
        threads="1",
        mpi={"binding": "core"},
        spec=ONE_THREAD,
    ),
}


def spec_of(case: Case, runtime: Runtime, folders: dict[str, Path]) -> dict[str, Any]:
    given = with_mpi(runtime.folder, case.env)
    return {
        **given,
        **mounted(folders),
        **case.spec,
        "env": [*(given["env"] if case.env is not None else ()), *OF_THE_POD],
        "nodes": case.nodes,
        "processesPerNode": case.processes,
        "mpi": {"implementation": runtime.implementation, **case.mpi},
        "command": ["sh", "-c", RANK.format(library=runtime.library)],
    }


@pytest.mark.parametrize("name", CASES)
def test_the_ranks_of_all_nodes_add_up_where_they_were_bound(
    cluster: Cluster, namespace: str, mpis: Path, tmp_path: Path, name: str
) -> None:
    case = CASES[name]
    runtime = installed(case.runtime, mpis)
    seen_at, oneapi = tmp_path / "seen", tmp_path / "oneapi"
    for folder in (seen_at, oneapi):
        folder.mkdir()
        folder.chmod(0o777)  # whoever the job runs as
    if case.env is None:
        (oneapi / "setvars.sh").write_text(SETVARS)
    folders = {"/mpi": runtime.folder, "/mpi-programs": MPI_PROGRAMS, "/seen": seen_at, "/opt/intel/oneapi": oneapi}
    file = job("bound", cluster, **spec_of(case, runtime, folders))
    applied = apply_and_wait(cluster, namespace, file, timeout=90)
    log = cluster.k8sel("logs", "--no-follow", "bound", "-n", namespace).stdout
    assert applied.returncode == 0, applied.stderr + log

    ranks = [(node, local) for node in range(case.nodes) for local in range(case.processes)]
    size = len(ranks)
    for rank, (node, _) in enumerate(ranks):
        assert f"rank {rank} of {size} on bound-worker-{node}: {sum(range(size))}, as in the environment: True" in log
    seen = shown(seen_at)
    assert [each["host"] for each in seen] == [f"bound-worker-{node}" for node, _ in ranks]
    assert [each["cpus"] for each in seen] == [case.cpus(local) for _, local in ranks]
    # Of the worker's container, not of the launcher's, though no name of them stands in mpirun's command.
    assert [each["env"]["HOSTNAME"] for each in seen] == [each["host"] for each in seen]
    assert [each["env"]["URL"] for each in seen] == [f"tcp://{each['host']}" for each in seen]
    assert {each["env"]["K_MPI_JOB_ROLE"] for each in seen} == {"worker"}
    assert log.count("kept 600\n") == size
    if case.threads:
        assert {each["env"]["OMP_NUM_THREADS"] for each in seen} == {case.threads}

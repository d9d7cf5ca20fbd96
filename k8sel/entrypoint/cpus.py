"""Counts the cores that this container really has, and the threads that each of its processes should start.

A core computes once, however many CPUs (hyperthreads) the kernel shows of it. cgroup: the kernel's
Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpusets.rst, scheduler/sched-bwc.rst; cores:
Documentation/admin-guide/cputopology.rst.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.machine import Machine, names, read, whole
from k8sel.entrypoint.record import TYPE_CHECKING, record

if TYPE_CHECKING:
    from typing import Iterable

AFFINITY = "CCL_WORKER_AFFINITY"  # where these are bound to
WORKERS = "CCL_WORKER_COUNT"  # threads that oneCCL starts in each process: uxlfoundation/oneCCL, env-variables.rst
_MOST = 2**13  # CPUs of a machine: the most that Linux is built for, NR_CPUS of arch/x86/Kconfig


@record(frozen=True)
class Share:
    """The share of a node's cores that each of its processes has."""

    threads: int
    cores: int | None = None  # 0: less than one; None: nobody counted, because the threads were given
    workers: int = 0  # of oneCCL, on cores of their own


def share(machine: Machine, processes: int, own: Iterable[int], workers: int = 0, bound: bool = False) -> Share:
    """The share of each of ``processes`` on this node; ``own``: CPUs that this process may run on.

    ``bound``: a launcher may have bound this process to its own share already; then that share is not divided again.
    """
    least = _cores(machine, own) if bound else _MOST
    cores = min(least, usable(machine, _all(machine) if bound else own) // processes)
    return Share(max(1, cores - workers), cores, workers)


def crowded(share: Share) -> list[str]:
    """Notes that oneCCL's workers leave less than one core to compute on."""
    if share.cores is None or not share.workers or share.cores > share.workers:
        return []
    workers = "a worker" if share.workers == 1 else f"{share.workers} workers"
    return [f"each process has {cores(share)} for {workers} of oneCCL and its own threads: fewer processes or workers"]


def cores(share: Share) -> str:
    """The number of cores, in words."""
    return f"{share.cores} core{'' if share.cores == 1 else 's'}" if share.cores else "less than a core"


def workers(environ: dict[str, str]) -> int:
    """Threads that oneCCL starts in each process; 0 where nothing says so, or what oneCCL does not take."""
    return whole(environ.get(WORKERS, "")) or 0


def for_workers(machine: Machine, own: Iterable[int], workers: int, local_rank: int, processes: int) -> str:
    """CCL_WORKER_AFFINITY for a process that is bound to ``own``; empty: it is not, or nothing asks for workers.

    By itself oneCCL takes the node's last CPUs, unless Intel MPI has bound the process (run with 2021.13.1).
    Its list has a CPU for each worker of the node, of which a process reads its own part: so all parts are the same.
    The last cores, and others for each process, because several may be bound to the same.
    """
    allowed = set(own)
    if not workers or allowed >= _all(machine):
        return ""
    cores = _of_each_core(machine, allowed)
    mine = [cores[-(1 + local_rank * workers + worker) % len(cores)] for worker in range(workers)]
    return ",".join(str(cpu) for cpu in mine * processes)


def usable(machine: Machine, allowed: Iterable[int]) -> int:
    """Cores with a CPU that is allowed and in the cpuset, no more than the quota rounded down; at least 1."""
    cpuset = _cpuset(machine)
    inside = [cpu for cpu in allowed if any(cpu in part for part in cpuset)] if cpuset else allowed
    limits = [float(_cores(machine, inside)), *_quotas(machine)]
    return max(1, int(min(limits)))


def numa_nodes(machine: Machine) -> int:
    """NUMA nodes of the machine; 0 when the kernel does not say."""
    return sum(1 for name in names(machine.sys, "devices/system/node") if name[4:].isdecimal() and name[:4] == "node")


def listed(cpu_list: str) -> list[range]:
    """CPUs in the kernel's list form: ``0-3,8``. What cannot be read is left out."""
    parts = []
    for part in cpu_list.replace("\n", "").split(","):
        first, _, last = part.partition("-")
        start, end = whole(first), whole(last or first)
        if start is not None and end is not None and start <= end:
            parts.append(range(start, end + 1))
    return parts


def _cores(machine: Machine, cpus: Iterable[int]) -> int:
    """Counts the cores that these CPUs belong to."""
    return len(_of_each_core(machine, cpus))


def _of_each_core(machine: Machine, cpus: Iterable[int]) -> list[int]:
    """One of these CPUs of each core; each is one itself where the kernel does not say, or has switched threads off."""
    left = set(cpus)
    if read(machine.sys, "devices/system/cpu/smt/active") == "0":
        return sorted(left)
    found = []
    for cpu in sorted(left):
        if cpu in left:
            found.append(cpu)
            for siblings in listed(read(machine.sys, f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list")):
                left.difference_update(siblings[:_MOST])
    return found


def _all(machine: Machine) -> set[int]:
    """CPUs of the machine, whatever this process may use of them."""
    online = listed(read(machine.sys, "devices/system/cpu/online"))
    return set().union(*(part[:_MOST] for part in online)) or set(range(os.cpu_count() or 1))


def _quotas(machine: Machine) -> list[float]:
    """CPUs of every quota above this process: the smallest counts, whoever set it."""
    quotas = []
    for folder in _folders(machine, "cpu"):
        text, _, every = read(folder, "cpu.max").partition(" ")
        quota = whole(text or read(folder, "cpu.cfs_quota_us"))
        period = whole(every or read(folder, "cpu.cfs_period_us") or "100000")
        if quota is not None and period:
            quotas.append(quota / period)
    return quotas


def _cpuset(machine: Machine) -> list[range]:
    """CPUs of the innermost cpuset that says so; empty if none does."""
    for folder in _folders(machine, "cpuset"):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            cpus = listed(read(folder, name))
            if cpus:
                return cpus
    return []


def _folders(machine: Machine, controller: str) -> list[str]:
    """This process's cgroup folder for ``controller`` and all above it, innermost first; v2's and v1's."""
    folders = []
    for line in read(machine.proc, "self/cgroup").splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers == "" or controller in controllers.split(","):
            mounts = [controllers, controller] if controllers else [""]
            roots = [os.path.join(machine.sys, "fs/cgroup", mount) for mount in mounts]
            root = next((root for root in roots if os.path.isdir(root)), "")
            folders += _up(root, path) if root else []
    return folders


def _up(root: str, path: str) -> list[str]:
    """``root/path`` and its parents up to ``root``. A container's own namespace shows its cgroup at the root."""
    parts = [] if ".." in path.split("/") else [part for part in path.split("/") if part]
    return [os.path.join(root, *parts[:depth]) for depth in range(len(parts), -1, -1)]

"""Counts the cores that this container can use, and the threads that each of its processes should start.

The kernel shows a core as several CPUs (hyperthreads); here it counts once. Sources for cgroup: the kernel's
Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpusets.rst, scheduler/sched-bwc.rst; cores:
Documentation/admin-guide/cputopology.rst.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.lean import TYPE_CHECKING, record
from k8sel.entrypoint.machine import Machine, numbers, read, whole

if TYPE_CHECKING:
    from typing import Iterable

AFFINITY = "CCL_WORKER_AFFINITY"  # the CPUs that these are bound to
WORKERS = "CCL_WORKER_COUNT"  # threads that oneCCL starts in each process: uxlfoundation/oneCCL, env-variables.rst
_MOST = 2**13  # the most CPUs that Linux supports: NR_CPUS in arch/x86/Kconfig


@record(frozen=True)
class Share:
    """The share of a node's cores that each of its processes has."""

    threads: int
    cores: int | None = None  # 0: less than one; None: not counted, because the number of threads was given
    workers: int = 0  # oneCCL's workers, each on its own core


def share(machine: Machine, processes: int, own: Iterable[int], workers: int = 0, bound: bool = False) -> Share:
    """Returns the share of each of ``processes`` on this node; ``own``: CPUs that this process may run on.

    ``bound``: a launcher may have bound this process to its own share; then the function does not divide ``own`` again.
    """
    least = _cores(machine, own) if bound else _MOST
    cores = min(least, usable(machine, _all(machine) if bound else own) // processes)
    return Share(max(1, cores - workers), cores, workers)


def crowded(share: Share) -> list[str]:
    """Returns a note if oneCCL's workers leave less than one core for the computation."""
    if share.cores is None or not share.workers or share.cores > share.workers:
        return []
    workers = "a worker" if share.workers == 1 else f"{share.workers} workers"
    fact = f"each process has {cores(share)} for {workers} of oneCCL and its own threads"
    return [f"{fact}: use fewer processes or workers"]


def cores(share: Share) -> str:
    """Returns the number of cores, in words."""
    return f"{share.cores} core{'' if share.cores == 1 else 's'}" if share.cores else "less than a core"


def workers(environ: dict[str, str]) -> int:
    """Returns the number of oneCCL's threads in each process; 0 if the variable is not set or is not a number."""
    return whole(environ.get(WORKERS, "")) or 0


def for_workers(machine: Machine, own: Iterable[int], workers: int, local_rank: int, processes: int) -> str:
    """Returns CCL_WORKER_AFFINITY for a process bound to ``own``; empty if it is not bound, or has no workers.

    By itself oneCCL takes the node's last CPUs, unless Intel MPI has bound the process (run with 2021.13.1).
    Its list has a CPU for each worker of the node. A process reads only its own part, so all parts are the same here.
    Takes the last cores, other ones for each local rank, because several processes may be bound to the same cores.
    """
    allowed = set(own)
    if not workers or allowed >= _all(machine):
        return ""
    cores = _of_each_core(machine, allowed)
    mine = [cores[-(1 + local_rank * workers + worker) % len(cores)] for worker in range(workers)]
    return ",".join(str(cpu) for cpu in mine * processes)


def usable(machine: Machine, allowed: Iterable[int]) -> int:
    """Counts the cores with an allowed CPU in the cpuset, limited by the quota rounded down; at least 1."""
    cpuset = _cpuset(machine)
    inside = [cpu for cpu in allowed if any(cpu in part for part in cpuset)] if cpuset else allowed
    limits = [float(_cores(machine, inside)), *_quotas(machine)]
    return max(1, int(min(limits)))


def numa_nodes(machine: Machine) -> int:
    """Counts the NUMA nodes of the machine; 0 if the kernel does not list them."""
    return len(numbers("node", machine.sys, "devices/system/node"))


def listed(cpu_list: str) -> list[range]:
    """Reads the kernel's list of CPUs, such as ``0-3,8``. Leaves out parts that it cannot read."""
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
    """Returns one CPU of each core; every CPU if the kernel does not list siblings, or if hyperthreading is off."""
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
    """Returns all CPUs of the machine, including those that this process may not use."""
    online = listed(read(machine.sys, "devices/system/cpu/online"))
    return set().union(*(part[:_MOST] for part in online)) or set(range(os.cpu_count() or 1))


def _quotas(machine: Machine) -> list[float]:
    """Returns the CPU quota of each cgroup above this process; the smallest one limits the process."""
    quotas = []
    for folder in _folders(machine, "cpu"):
        text, _, every = read(folder, "cpu.max").partition(" ")
        quota = whole(text or read(folder, "cpu.cfs_quota_us"))
        period = whole(every or read(folder, "cpu.cfs_period_us") or "100000")
        if quota is not None and period:
            quotas.append(quota / period)
    return quotas


def _cpuset(machine: Machine) -> list[range]:
    """Returns the CPUs of the innermost cpuset that lists any; empty if none does."""
    for folder in _folders(machine, "cpuset"):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            cpus = listed(read(folder, name))
            if cpus:
                return cpus
    return []


def _folders(machine: Machine, controller: str) -> list[str]:
    """Returns this process's cgroup folder for ``controller`` and its parents, innermost first, of v1 and v2."""
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
    """Returns ``root/path`` and its parents up to ``root``, where a cgroup namespace shows the container's cgroup."""
    parts = [] if ".." in path.split("/") else [part for part in path.split("/") if part]
    return [os.path.join(root, *parts[:depth]) for depth in range(len(parts), -1, -1)]

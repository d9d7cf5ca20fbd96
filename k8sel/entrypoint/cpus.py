"""How many CPUs this container may really use, and how many threads each of its processes should start.

cgroup: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/cpusets.rst, scheduler/sched-bwc.rst.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.machine import Machine, names, read, whole


def threads(machine: Machine, processes: int, affinity: int, bound: bool = False) -> int:
    """Threads for each of ``processes`` on this node, at least 1; ``affinity``: CPUs this process may run on.

    ``bound``: a launcher may have bound this process to its own share already; then that share is not divided again.
    """
    if bound:
        return max(1, min(affinity, usable(machine, os.cpu_count() or affinity) // processes))
    return max(1, usable(machine, affinity) // processes)


def usable(machine: Machine, affinity: int) -> int:
    """The least of the CPUs in the affinity mask, in the cpuset and, rounded down, in the quota; at least 1."""
    limits = [float(affinity), *_cpuset(machine), *_quotas(machine)]
    return max(1, int(min(limits)))


def numa_nodes(machine: Machine) -> int:
    """NUMA nodes of the machine; 0 when the kernel does not say."""
    return sum(1 for name in names(machine.sys, "devices/system/node") if name[4:].isdecimal() and name[:4] == "node")


def count(cpu_list: str) -> int:
    """CPUs in the kernel's list form: ``0-3,8`` is 5. Nothing that can be read is 0."""
    total = 0
    for part in cpu_list.replace("\n", "").split(","):
        first, _, last = part.partition("-")
        start, end = whole(first), whole(last or first)
        if start is not None and end is not None:
            total += end - start + 1
    return total


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


def _cpuset(machine: Machine) -> list[float]:
    """CPUs of the innermost cpuset that says so; empty if none does."""
    for folder in _folders(machine, "cpuset"):
        for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
            cpus = count(read(folder, name))
            if cpus:
                return [float(cpus)]
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

"""Cores that a container has, and threads, on cgroup v1 and v2 and on machines of several shapes: tables."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from entrypoint.machines import Box
from k8sel.entrypoint import cpus
from k8sel.entrypoint.cpus import Share
from k8sel.entrypoint.machine import Machine, under

V2 = {"proc/self/cgroup": "0::/\n"}
V1 = {"proc/self/cgroup": "12:cpuset:/\n4:cpu,cpuacct:/\n1:name=systemd:/\n"}

# name: files, CPUs in the affinity mask, usable cores: the kernel says of none of these CPUs that it is half a core
MACHINES: dict[str, tuple[dict[str, str], int, int]] = {
    "nothing known": ({}, 6, 6),
    "v2, no limit": ({**V2, "sys/fs/cgroup/cpu.max": "max 100000\n"}, 6, 6),
    "v2, 4 CPUs": ({**V2, "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 16, 4),
    "v2, 2.5 CPUs are 2": ({**V2, "sys/fs/cgroup/cpu.max": "250000 100000"}, 16, 2),
    "v2, half a CPU is 1": ({**V2, "sys/fs/cgroup/cpu.max": "50000 100000"}, 16, 1),
    "v2, cpuset": ({**V2, "sys/fs/cgroup/cpuset.cpus.effective": "0-2,8\n"}, 16, 4),
    "v2, affinity is the least": ({**V2, "sys/fs/cgroup/cpuset.cpus.effective": "0-7"}, 3, 3),
    "v2, a path, its parent has less": (
        {
            "proc/self/cgroup": "0::/kubepods/pod1/c1\n",
            "sys/fs/cgroup/kubepods/pod1/c1/cpu.max": "max 100000",
            "sys/fs/cgroup/kubepods/pod1/cpu.max": "300000 100000",
            "sys/fs/cgroup/kubepods/cpu.max": "900000 100000",
        },
        16,
        3,
    ),
    "v2, a path that is not mounted here": (
        {"proc/self/cgroup": "0::/kubepods/pod1\n", "sys/fs/cgroup/cpu.max": "200000 100000"},
        16,
        2,
    ),
    "v2, seen from another namespace": (
        {"proc/self/cgroup": "0::/../../pod1\n", "sys/fs/cgroup/cpu.max": "200000 100000"},
        16,
        2,
    ),
    "v1, no limit": (
        {**V1, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"},
        6,
        6,
    ),
    "v1, 3 CPUs": (
        {**V1, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "150000", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "50000"},
        16,
        3,
    ),
    "v1, controllers mounted together": (
        {
            **V1,
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us": "200000",
            "sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
        },
        16,
        2,
    ),
    "v1, cpuset": ({**V1, "sys/fs/cgroup/cpuset/cpuset.cpus": "4-5\n"}, 16, 2),
    "nonsense": ({**V2, "sys/fs/cgroup/cpu.max": "a b", "sys/fs/cgroup/cpuset.cpus.effective": "x-y,"}, 6, 6),
    "a number beyond all": ({**V2, "sys/fs/cgroup/cpu.max": "9" * 5000 + " 100000"}, 6, 6),
    "a number beyond a float": ({**V2, "sys/fs/cgroup/cpu.max": "9" * 400 + " 1"}, 6, 6),
    "a period beyond all": ({**V2, "sys/fs/cgroup/cpu.max": "100 " + "9" * 5000}, 6, 6),
    "a cpuset beyond all": ({**V2, "sys/fs/cgroup/cpuset.cpus.effective": "0-" + "9" * 5000}, 6, 6),
    "a cpuset beyond a float": ({**V2, "sys/fs/cgroup/cpuset.cpus.effective": "0-" + "9" * 400}, 6, 6),
    "a period of 0": ({**V2, "sys/fs/cgroup/cpu.max": "100 0"}, 6, 6),
}


def lay_out(root: Path, files: dict[str, str]) -> Machine:
    for path, text in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return under(str(root))


@pytest.mark.parametrize("name", MACHINES)
def test_usable(name: str, tmp_path: Path) -> None:
    files, affinity, expected = MACHINES[name]
    assert cpus.usable(lay_out(tmp_path, files), range(affinity)) == expected


@pytest.mark.parametrize(("processes", "expected"), [(1, 4), (2, 2), (3, 1), (4, 1), (9, 1)])
def test_threads_are_shared_out(processes: int, expected: int, tmp_path: Path) -> None:
    machine = lay_out(tmp_path, {**V2, "sys/fs/cgroup/cpu.max": "400000 100000"})
    assert cpus.share(machine, processes, range(16)).threads == expected


def test_a_share_that_a_launcher_has_bound_is_not_divided_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    machine = lay_out(tmp_path, {})
    assert cpus.share(machine, 2, range(4), bound=True).threads == 4
    assert cpus.share(machine, 2, range(8), bound=True).threads == 4


def xeon(sockets: int, cores: int, threads: int = 2) -> dict[str, str]:
    """A machine's topology as Linux numbers it: a CPU of every core first, then the second of every core."""
    every = sockets * cores
    online = f"0-{every * threads - 1}\n"
    files = {"sys/devices/system/cpu/online": online, "sys/devices/system/cpu/smt/active": f"{threads - 1}\n"}
    for cpu in range(every * threads):
        siblings = ",".join(str(cpu % every + every * thread) for thread in range(threads))
        files[f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"] = f"{siblings}\n"
    return files


TWO_XEONS = xeon(2, 24)
ALL = frozenset(range(96))
SOCKET = frozenset({*range(24), *range(48, 72)})  # the first one's
NUMA = frozenset({*range(12), *range(48, 60)})  # a half of it
QUOTA, CPUSET = "sys/fs/cgroup/cpu.max", "sys/fs/cgroup/cpuset.cpus.effective"


# name: CPUs of this process, workers, (local rank, processes), and the list that oneCCL gets
WORKERS: dict[str, tuple[frozenset[int], int, tuple[int, int], str]] = {
    "not bound: oneCCL's own choice": (ALL, 1, (0, 2), ""),
    "no worker": (SOCKET, 0, (0, 2), ""),
    "the last core of its socket": (SOCKET, 1, (0, 2), "23,23"),
    "another core for each process that may share the socket": (SOCKET, 1, (2, 4), "21,21,21,21"),
    "several workers": (SOCKET, 2, (0, 2), "23,22,23,22"),
    "several workers of the second": (SOCKET, 2, (1, 2), "21,20,21,20"),
    "more than cores": (frozenset({5, 53}), 2, (1, 2), "5,5,5,5"),
}


@pytest.mark.parametrize("name", WORKERS)
def test_where_workers_of_a_bound_process_compute(tmp_path: Path, name: str) -> None:
    own, workers, (local_rank, processes), expected = WORKERS[name]
    assert cpus.for_workers(lay_out(tmp_path, TWO_XEONS), own, workers, local_rank, processes) == expected


# name: files, CPUs of this process, whether a launcher may have bound it, processes, workers, (threads, cores)
SHARES: dict[str, tuple[dict[str, str], frozenset[int], bool, int, int, tuple[int, int]]] = {
    "a process a socket": (TWO_XEONS, ALL, False, 2, 1, (23, 24)),
    "bound to its socket": (TWO_XEONS, SOCKET, True, 2, 1, (23, 24)),
    "not bound": (TWO_XEONS, ALL, True, 2, 1, (23, 24)),
    "no worker": (TWO_XEONS, ALL, False, 2, 0, (24, 24)),
    "four workers": (TWO_XEONS, ALL, False, 2, 4, (20, 24)),
    "one process": (TWO_XEONS, ALL, False, 1, 1, (47, 48)),
    "a process a NUMA node": (TWO_XEONS, ALL, False, 4, 1, (11, 12)),
    "bound to its NUMA node": (TWO_XEONS, NUMA, True, 4, 1, (11, 12)),
    "bound to one CPU of each core": (TWO_XEONS, frozenset(range(24)), True, 2, 1, (23, 24)),
    "bound to both CPUs of one core": (TWO_XEONS, frozenset({5, 53}), True, 2, 0, (1, 1)),
    "an odd division": (TWO_XEONS, ALL, False, 5, 1, (8, 9)),
    "more processes than cores": (TWO_XEONS, ALL, False, 96, 1, (1, 0)),
    "as many workers as cores": (TWO_XEONS, ALL, False, 24, 2, (1, 2)),
    "more workers than cores": (TWO_XEONS, ALL, False, 48, 9, (1, 1)),
    "a quota": ({**TWO_XEONS, **V2, QUOTA: "1250000 100000"}, ALL, False, 2, 1, (5, 6)),
    "a quota beyond the cores": ({**TWO_XEONS, **V2, QUOTA: "6000000 100000"}, ALL, False, 2, 1, (23, 24)),
    "a quota, and bound": ({**TWO_XEONS, **V2, QUOTA: "1200000 100000"}, SOCKET, True, 2, 1, (5, 6)),
    "a cpuset of whole cores": ({**TWO_XEONS, **V2, CPUSET: "0-3,48-51"}, ALL, False, 2, 1, (1, 2)),
    "a cpuset of halves": ({**TWO_XEONS, **V2, CPUSET: "0-3"}, ALL, False, 2, 1, (1, 2)),
    "a cpuset, and bound": ({**TWO_XEONS, **V2, CPUSET: "0-15,48-63"}, frozenset(range(8)), True, 2, 1, (7, 8)),
    "affinity and cpuset overlap": ({**TWO_XEONS, **V2, CPUSET: "20-27"}, SOCKET, False, 1, 0, (4, 4)),
    "threads switched off": (xeon(2, 24, threads=1), frozenset(range(48)), False, 2, 1, (23, 24)),
    "four threads a core": (xeon(1, 20, threads=4), frozenset(range(80)), False, 2, 0, (10, 10)),
    "the second of each core offline": (xeon(2, 24), frozenset(range(48)), False, 2, 1, (23, 24)),
    "no topology": ({}, frozenset(range(8)), False, 2, 1, (3, 4)),
    "nonsense for a topology": (
        {"sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "x-y,-1,5-3"},
        frozenset(range(4)),
        False,
        1,
        0,
        (4, 4),
    ),
    "siblings beyond all": (
        {"sys/devices/system/cpu/cpu0/topology/thread_siblings_list": "0-" + "9" * 18},
        frozenset(range(4)),
        False,
        1,
        0,
        (1, 1),
    ),
    "a topology of half the CPUs": (
        {f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list": "0-1" for cpu in (0, 1)},
        frozenset(range(4)),
        False,
        1,
        0,
        (3, 3),
    ),
    "CPUs online beyond all": (
        {"sys/devices/system/cpu/online": "0-" + "9" * 18},
        frozenset(range(4)),
        True,
        2,
        0,
        (4, 4),
    ),
}


@pytest.mark.parametrize("name", SHARES)
def test_share(name: str, tmp_path: Path) -> None:
    files, own, bound, processes, workers, expected = SHARES[name]
    share = cpus.share(lay_out(tmp_path, files), processes, own, workers, bound)
    assert (share.threads, share.cores, share.workers) == (*expected, workers)


@pytest.mark.parametrize(
    ("share", "said"),
    [
        (Share(23, 24, 1), []),
        (Share(1, 1, 0), []),
        (Share(1, 0, 0), []),
        (Share(4, None, 4), []),
        (Share(1, 2, 1), []),
        (
            Share(1, 1, 1),
            ["each process has 1 core for a worker of oneCCL and its own threads: use fewer processes or workers"],
        ),
        (
            Share(1, 2, 3),
            ["each process has 2 cores for 3 workers of oneCCL and its own threads: use fewer processes or workers"],
        ),
        (
            Share(1, 0, 1),
            [
                "each process has less than a core for a worker of oneCCL and its own threads: "
                "use fewer processes or workers"
            ],
        ),
    ],
)
def test_workers_that_leave_no_core(share: Share, said: list[str]) -> None:
    assert [text[: len(begin)] for text, begin in zip(cpus.crowded(share), said, strict=True)] == said


@pytest.mark.parametrize(
    ("text", "expected"), [("", 0), ("1", 1), ("4", 4), ("0", 0), ("-1", 0), ("two", 0), ("9" * 5000, 0)]
)
def test_workers_of_the_environment(text: str, expected: int) -> None:
    assert cpus.workers({"CCL_WORKER_COUNT": text}) == expected


def test_what_a_process_of_a_cpu_job_gets_is_said(box: Box) -> None:
    for path, text in xeon(1, 4, threads=1).items():
        box.write(path, text)
    number = min(len(os.sched_getaffinity(0)), 4)
    plural = "" if number == 1 else "s"
    expect = {"accelerator": "cpu", "devices": []}
    end = box.start(expect=expect)
    assert f"local rank 0 -> no device; OMP_NUM_THREADS={number} on {number} core{plural}\n" in end.err
    assert (end.receipt["threads"], end.receipt["cores"], end.receipt["cclWorkers"]) == (str(number), number, 0)
    end = box.start(expect=expect, env={"CCL_WORKER_COUNT": "1"})
    threads = max(1, number - 1)
    assert end.env["OMP_NUM_THREADS"] == str(threads)
    assert f"OMP_NUM_THREADS={threads} on {number} core{plural}, 1 for oneCCL\n" in end.err
    end = box.start(expect=expect, env={"CCL_WORKER_COUNT": "9"})
    assert "node box: note: each process has" in end.err
    for given in ({"OMP_NUM_THREADS": "7"}, {"OMP_NUM_THREADS": "7", "CCL_WORKER_COUNT": "9"}):
        end = box.start(expect=expect, env=given)
        assert "OMP_NUM_THREADS=7\n" in end.err
        assert "note: each process" not in end.err
        assert end.receipt["cores"] is None


def test_what_mpirun_is_started_with_is_not_its_ranks_number(box: Box) -> None:
    """It hands its environment on, and a rank may be bound to less than its share."""
    expect = {"accelerator": "cpu", "devices": [], "launcher": "mpirun"}
    end = box.start(expect=expect)
    assert "OMP_NUM_THREADS" not in end.env
    assert "local rank 0 -> no device\n" in end.err
    assert end.receipt["threads"] is None
    assert box.start(expect=expect, env={"OMP_NUM_THREADS": "3"}).env["OMP_NUM_THREADS"] == "3"


@pytest.mark.parametrize(
    ("text", "expected"),
    [("", []), ("0", [0]), ("0-3,8,10-11\n", [0, 1, 2, 3, 8, 10, 11]), ("nonsense", []), ("3-1,2", [2])],
)
def test_cpu_lists(text: str, expected: list[int]) -> None:
    assert [cpu for part in cpus.listed(text) for cpu in part] == expected


def test_numa_nodes(tmp_path: Path) -> None:
    files = {f"sys/devices/system/node/{name}": "" for name in ("node0/x", "node1/x", "possible", "has_cpu")}
    assert cpus.numa_nodes(lay_out(tmp_path, files)) == 2

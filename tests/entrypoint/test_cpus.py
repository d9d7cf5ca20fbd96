"""CPUs that a container may use, and threads, on cgroup v1 and v2: a table."""

from __future__ import annotations

from pathlib import Path

import pytest

from k8sel.entrypoint import cpus
from k8sel.entrypoint.machine import Machine, under

V2 = {"proc/self/cgroup": "0::/\n"}
V1 = {"proc/self/cgroup": "12:cpuset:/\n4:cpu,cpuacct:/\n1:name=systemd:/\n"}

# name: files, CPUs in the affinity mask, usable CPUs
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
    assert cpus.usable(lay_out(tmp_path, files), affinity) == expected


@pytest.mark.parametrize(("processes", "expected"), [(1, 4), (2, 2), (3, 1), (4, 1), (9, 1)])
def test_threads_are_shared_out(processes: int, expected: int, tmp_path: Path) -> None:
    machine = lay_out(tmp_path, {**V2, "sys/fs/cgroup/cpu.max": "400000 100000"})
    assert cpus.threads(machine, processes, 16) == expected


def test_a_share_that_a_launcher_has_bound_is_not_divided_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 8)
    machine = lay_out(tmp_path, {})
    assert cpus.threads(machine, 2, affinity=4, bound=True) == 4
    assert cpus.threads(machine, 2, affinity=8, bound=True) == 4


@pytest.mark.parametrize(("text", "expected"), [("", 0), ("0", 1), ("0-3", 4), ("0-3,8,10-11\n", 7), ("nonsense", 0)])
def test_cpu_lists(text: str, expected: int) -> None:
    assert cpus.count(text) == expected


def test_numa_nodes(tmp_path: Path) -> None:
    files = {f"sys/devices/system/node/{name}": "" for name in ("node0/x", "node1/x", "possible", "has_cpu")}
    assert cpus.numa_nodes(lay_out(tmp_path, files)) == 2

"""Tests a job's other requirements: memory of devices, /dev/shm, limits, libraries."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from conftest import unavailable

from entrypoint.machines import Box, End, Gpu, devices
from entrypoint.trees import amd, bank, drm, kfd
from k8sel.entrypoint.checks import product, surroundings
from k8sel.entrypoint.checks.surroundings import NO_LIMIT, Surroundings
from k8sel.entrypoint.protocol import Expectation

GI = 2**30
OPENMPI = {"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}
PROCESSES = {"launcher": "torchrun", "processesPerNode": 2}


def note(end: End) -> str:
    """The one line of notes; empty where there is none."""
    lines = [line for line in end.err.splitlines() if line.startswith("k8sel: node box: note: ")]
    assert len(lines) <= 1
    return "".join(lines).removeprefix("k8sel: node box: note: ")


def mixed(box: Box) -> None:
    """GPUs of 64Gi, 128Gi and one that does not say its memory, in PCI order."""
    kfd(box, (0, "0"), (128, "1"), (129, "2"), (130, "3"))
    drm(box, *amd((128, "0a"), (129, "c1"), (130, "d1")))
    bank(box, 1, 0, heap=1, size=64 * GI)
    bank(box, 2, 0, heap=1, size=128 * GI)


@pytest.mark.parametrize("asked", [80 * GI, 1])
def test_devices_with_as_much_memory_as_asked_for(asked: int, nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(0, 1, 2, count=3, memory=asked))
    assert (end.status, note(end), end.receipt["notChecked"]) == (0, "", [])
    assert [rank["devices"][0]["memory"] for rank in end.receipt["ranks"]] == [80 * GI]


def test_devices_with_less_memory(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(0, 1, count=3, memory=80 * GI + 1))
    assert (end.status, end.out) == (78, "")
    assert "memory of 80Gi or more expected on each device, 80Gi on devices 0, 1 found by NVML: " in end.message
    assert "a card sold as 80GB has about 79.6Gi" in end.message


@pytest.mark.parametrize(
    ("used", "message"),
    [
        ([1], ""),
        ([0], "memory of 96Gi or more expected on each device, 64Gi on device 0 found by KFD: "),
        ([1, 0], "memory of 96Gi or more expected on each device, 64Gi on device 0 found by KFD: "),
    ],
)
def test_memory_of_devices_that_are_used(used: list[int], message: str, box: Box) -> None:
    mixed(box)
    end = box.start(expect={"accelerator": "rocm", "devices": used, "memory": 96 * GI})
    assert (end.status, message in end.message) == (78 if message else 0, True)


def test_memory_that_cannot_be_checked_is_said(box: Box) -> None:
    mixed(box)
    end = box.start(expect={"accelerator": "rocm", "devices": [1, 2], "memory": 96 * GI})
    assert note(end) == "memory of 96Gi cannot be checked: KFD has no memory size of device 2"
    assert end.receipt["notChecked"] == ["memory"]
    assert "; not checked: memory\n" in end.err


def test_memory_that_no_device_says(box: Box) -> None:
    box.gpus(Gpu(0, "0000:1a:00.0"), Gpu(1, "0000:3b:00.0"))
    box.write("lib/libcuda.so.1", "")
    end = box.start(expect=devices(0, 1, count=2, memory=GI))
    assert "memory of 1Gi cannot be checked: /proc/driver/nvidia has no memory size of devices 0, 1" in note(end)


@pytest.mark.parametrize(("given", "status"), [("80Gi", 0), ("85G", 0), ("81Gi", 78), ("", 0), ("1Ti", 78), ("1P", 78)])
def test_memory_by_hand(given: str, status: int, nvml_box: Box) -> None:
    plain = {"K8SEL_ACCELERATOR": "cuda", "K8SEL_COUNT": "3", "K8SEL_MEMORY": given}
    assert nvml_box.start(env=plain).status == status


@pytest.mark.parametrize("given", ["40", "40GB", "0Gi", "-1Gi", "4.5Gi", "Gi", "²Gi", "9999999Gi", "40 Gib"])
def test_memory_by_hand_that_is_none(given: str, box: Box) -> None:
    end = box.start(env={"K8SEL_ACCELERATOR": "cuda", "K8SEL_MEMORY": given})
    assert end.status == 78
    assert end.message == f"k8sel: K8SEL_MEMORY={given} is not a whole number with a unit: write it as in 40Gi or 80G\n"


@pytest.mark.parametrize(
    ("number", "text"),
    [(1, "1"), (2**26, "64Mi"), (81559 * 2**20, "79.64Gi"), (2**40, "1Ti"), (1100, "1.07Ki"), (2**62, "4096Pi")],
)
def test_a_size_as_a_job_file_says_it(number: int, text: str) -> None:
    assert product.size(number) == text


def test_shared_memory_that_is_smaller_than_asked_for(nvml_box: Box) -> None:
    (nvml_box.root / "dev/shm").symlink_to("/dev/shm")
    held = product.size(surroundings._shared(SimpleNamespace(dev="/dev")) or 0)  # type: ignore[arg-type]
    end = nvml_box.start(expect=devices(0, count=3, sharedMemory=2**60))
    assert end.status == 78
    assert f"/dev/shm of 1024Pi expected, {held} found: check the volumes that are mounted there" in end.message
    assert nvml_box.start(expect=devices(0, count=3, sharedMemory=2**20)).status == 0


def test_shared_memory_that_is_not_there(nvml_box: Box) -> None:
    for expect in (devices(0, count=3), {"accelerator": "cpu", "devices": []}):
        end = nvml_box.start(expect={**expect, "sharedMemory": GI})
        assert end.status == 78
        assert "/dev/shm of 1Gi expected, none found" in end.message


def test_a_container_that_was_given_no_shared_memory(nvml_box: Box) -> None:
    """A real one: what a container runtime mounts where nothing is asked for."""
    small = in_a_mount_of_64_mi(nvml_box, devices(0, 1, count=3, **PROCESSES))
    assert small.returncode == 0
    assert "note: /dev/shm has 64Mi for 2 processes, and collectives and data loading soon fill it" in small.stderr
    assert " note: " not in in_a_mount_of_64_mi(nvml_box, devices(0, count=3)).stderr
    asked = in_a_mount_of_64_mi(nvml_box, devices(0, count=3, sharedMemory=8 * GI))
    assert asked.returncode == 78
    assert "/dev/shm of 8Gi expected, 64Mi found" in asked.stderr


def in_a_mount_of_64_mi(box: Box, expect: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    (box.root / "dev/shm").mkdir(exist_ok=True)
    mount = f"mount -t tmpfs -o size=64m none {box.root}/dev/shm"
    if subprocess.run(["unshare", "-m", "sh", "-c", mount], capture_output=True, check=False).returncode:
        unavailable("no mount namespace: root, and unshare of util-linux")
    start = f'{mount} && exec "$@"'
    words = [sys.executable, "-I", "-S", str(box.entrypoint / "entrypoint.pyz"), "--", "true"]
    return subprocess.run(
        ["unshare", "-m", "sh", "-c", start, "sh", *words],
        env=box.environ(expect, {}),
        capture_output=True,
        text=True,
        check=False,
    )


LIMITS = """\
Limit                     Soft Limit           Hard Limit           Units
Max locked memory         {locked:<20} {locked:<20} bytes
Max open files            {soft:<20} {hard:<20} files
"""
FEW = "a process may open 1024 files, which is few among 16 processes or devices: "
LOCKED = (
    "8Mi of memory may be locked, and RDMA locks all that it sends: add capability IPC_LOCK in securityContext, or set"
)


@pytest.mark.parametrize(
    ("soft", "hard", "nodes", "said"),
    [
        ("1024", "524288", 8, f"{FEW}raise it in the program (ulimit -n, resource.setrlimit), up to 524288"),
        ("1024", "unlimited", 8, f"{FEW}raise it in the program (ulimit -n, resource.setrlimit)"),
        ("1024", "1024", 8, f"{FEW}set --ulimit nofile=65536, or LimitNOFILE of the node's container runtime"),
        ("1024", "1024", 4, ""),
        ("65536", "65536", 8, ""),
        ("unlimited", "unlimited", 8, ""),
        ("", "", 8, ""),
    ],
)
def test_open_files(soft: str, hard: str, nodes: int, said: str, nvml_box: Box) -> None:
    nvml_box.write("proc/self/limits", LIMITS.format(soft=soft, hard=hard, locked="unlimited"))
    assert note(nvml_box.start(expect=devices(0, 1, count=3, nodes=nodes, **PROCESSES))) == said


@pytest.mark.parametrize(
    ("locked", "capabilities", "rdma", "said"),
    [
        ("8388608", "00000000a80425fb", True, f"{LOCKED} --ulimit memlock=-1"),
        ("8388608", "00000000a80465fb", True, ""),  # with IPC_LOCK
        ("8388608", "00000000a80425fb", False, ""),
        ("unlimited", "0", True, ""),
        ("2147483648", "0", True, ""),
        ("8388608", "?", True, f"{LOCKED} --ulimit memlock=-1"),
    ],
)
def test_locked_memory(locked: str, capabilities: str, rdma: bool, said: str, nvml_box: Box) -> None:
    nvml_box.write("proc/self/limits", LIMITS.format(soft="65536", hard="65536", locked=locked))
    nvml_box.write("proc/self/status", f"Name:\tpython3\nCapEff:\t{capabilities}\n")
    if rdma:
        nvml_box.write("dev/infiniband/uverbs0", "")
    assert note(nvml_box.start(expect=devices(0, count=3))) == said


def test_this_processs_own_limits_are_read_as_the_kernel_writes_them() -> None:
    import resource

    kinds = (("Max open files", resource.RLIMIT_NOFILE), ("Max locked memory", resource.RLIMIT_MEMLOCK))
    for name, kind in kinds:
        known = tuple(NO_LIMIT if limit == resource.RLIM_INFINITY else limit for limit in resource.getrlimit(kind))
        assert surroundings._limit(Path("/proc/self/limits").read_text(), name) == known


def test_a_vendors_library_that_no_program_would_find(nvml_box: Box) -> None:
    (nvml_box.root / "lib/libcuda.so.1").unlink()
    end = nvml_box.start(expect=devices(0, count=3))
    assert end.status == 0
    assert note(end).startswith("libcuda.so.1 is in no folder that programs load from: set NVIDIA_DRIVER_CAPABILITIES=")
    assert "libcuda" not in note(nvml_box.start(expect=devices()))


@pytest.mark.parametrize(("found", "enough"), [(100, True), (95, True), (94, False), (50, False), (0, False)])
def test_a_smaller_shared_memory_is_a_stop(found: int, enough: bool) -> None:
    expectation = Expectation("cpu", (), shared_memory=100 * 2**20)
    problems = surroundings.problems(expectation, surroundings.Surroundings(shared=found * 2**20))
    assert [problem.partition(":")[0] for problem in problems] == (
        [] if enough else [f"/dev/shm of 100Mi expected, {f'{found}Mi' if found else 'none'} found"]
    )


def test_where_the_loader_looks(tmp_path: Path) -> None:
    machine = SimpleNamespace(lib="")
    (tmp_path / "libmine.so.1").write_text("")
    assert not surroundings._loads("libmine.so.1", machine, {})  # type: ignore[arg-type]
    assert surroundings._loads("libmine.so.1", machine, {"LD_LIBRARY_PATH": f"/nowhere:{tmp_path}"})  # type: ignore[arg-type]
    assert surroundings._loads("libc.so.6", machine, {})  # type: ignore[arg-type]


def test_what_cannot_be_read_is_no_problem() -> None:
    assert surroundings.problems(Expectation("cuda", (0,), shared_memory=GI), Surroundings()) == []
    assert surroundings.unknown(Expectation("cuda", (0,), shared_memory=GI), Surroundings()) == [
        "sharedMemory: 1Gi cannot be checked: /dev/shm cannot be read"
    ]


def test_one_line_for_all_notes_and_one_rank_that_says_them(nvml_box: Box) -> None:
    (nvml_box.root / "lib/libcuda.so.1").unlink()
    nvml_box.write("proc/self/limits", LIMITS.format(soft="1024", hard="1024", locked="1"))
    expect = devices(0, 1, count=3, nodes=8, launcher="mpirun", processesPerNode=2)
    ranks = [
        nvml_box.start(
            "rank",
            "env",
            expect=expect,
            env={**OPENMPI, "OMPI_COMM_WORLD_LOCAL_RANK": str(rank), "OMPI_COMM_WORLD_LOCAL_SIZE": "2"},
        )
        for rank in (0, 1)
    ]
    assert note(ranks[0]).count("; ") == 1
    assert not note(ranks[1])


def test_a_node_that_only_looks_reports_it_too(nvml_box: Box) -> None:
    end = nvml_box.start("check", expect=devices(0, count=3, sharedMemory=GI, memory=81 * GI))
    report = json.loads(end.out.partition(": ")[2])
    assert not report["ok"]
    assert len(report["problems"]) == 2


@pytest.mark.parametrize("program", ["torchrun", "accelerate", "mpirun"])
def test_a_launcher_that_is_not_installed(program: str, nvml_box: Box) -> None:
    end = nvml_box.start(program, "train.py", expect=devices(0, count=3), env={"PATH": "/nowhere"})
    assert end.status == 78
    assert f"no program {program} on PATH (/nowhere): " in end.message
    assert " install " in end.message


def test_the_libraries_a_program_will_import(nvml_box: Box, tmp_path: Path) -> None:
    others = ("numpy-2.1", "nvidia_cuda_cccl-13.3")
    path = environment(tmp_path, "torch-2.9.0+cu128", "nvidia_nccl_cu12-2.27.5", "deepspeed-0.18", *others)
    (tmp_path / "own/deepspeed-0.1.dist-info").mkdir(parents=True)
    end = nvml_box.start("train", expect=devices(0, count=3), env={**path, "PYTHONPATH": str(tmp_path / "own")})
    assert end.receipt["libraries"] == {"torch": "2.9.0+cu128", "nvidia_nccl_cu12": "2.27.5", "deepspeed": "0.1"}


@pytest.mark.parametrize(
    ("launcher", "installed", "said"),
    [
        ("deepspeed", ["torch-2.9.0"], "deepspeed is not installed beside torch 2.9.0: run pip install deepspeed"),
        ("accelerate", ["torch-2.9.0"], "accelerate is not installed beside torch 2.9.0: run pip install accelerate"),
        ("deepspeed", ["torch-2.9.0", "deepspeed-0.18"], ""),
        ("deepspeed", [], ""),
        ("torchrun", ["torch-2.9.0"], ""),
    ],
)
def test_a_launchers_library(launcher: str, installed: list[str], said: str, nvml_box: Box, tmp_path: Path) -> None:
    expect, path = devices(0, count=3, launcher=launcher), environment(tmp_path, *installed)
    end = nvml_box.start("train", expect=expect, env=path)
    assert (end.status, note(end)) == (0, said)  # what it starts may be another Python's
    shutil.copy(tmp_path / "venv/bin/train", tmp_path / "venv/bin/torchrun")
    end = nvml_box.start("torchrun", expect=expect, env=path)
    assert (end.status, note(end)) == (78 if said else 0, "")
    assert end.message == (f"k8sel: node box: {said}\n" if said else "")
    if said:
        assert nvml_box.start("torchrun", expect={**expect, "check": "off"}, env=path).status == 0
        (tmp_path / f"venv/lib/python3.12/site-packages/{launcher}").mkdir()
        assert nvml_box.start("torchrun", expect=expect, env=path).status == 0


def environment(folder: Path, *installed: str) -> dict[str, str]:
    """PATH with the program ``train`` of a virtual environment that holds these."""
    for name in installed:
        (folder / f"venv/lib/python3.12/site-packages/{name}.dist-info").mkdir(parents=True)
    (folder / "venv/bin").mkdir(parents=True, exist_ok=True)
    program = folder / "venv/bin/train"
    program.write_text("#!/bin/sh\nexit 0\n")
    program.chmod(0o755)
    return {"PATH": f"{program.parent}:/bin:/usr/bin"}

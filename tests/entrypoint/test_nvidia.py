"""NVIDIA's own cases: parts of GPUs (MIG), shared GPUs, what the runtime leaves in the environment, WSL."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from entrypoint.machines import Box, Gpu, devices, uuid

A, B, C = "0000:1a:00.0", "0000:3b:00.0", "0000:86:00.0"
OLD = {"FAKE_NVML_DRIVER": "550.54.15"}  # CUDA shows a process one part only
ORIN = {"FAKE_NVML_NAMES": "Orin (nvgpu)"}  # minor 0
FOUR = {"FAKE_NVML_MIG": ";3g.40gb,,2g.20gb,2g.20gb"}  # of minor 1


def part(minor: int, place: int) -> str:
    """The UUID that the fake driver gives the part at that place of the device with that minor number."""
    return f"MIG-00000000-0000-0000-{place:04d}-{minor:012d}"


def each(*positions: int, **more: object) -> dict[str, Any]:
    """An expectation of one process for each of these devices, each with a mask of its own."""
    return devices(*positions, isolation="process", launcher="mpirun", processesPerNode=len(positions), **more)


# name: minors with a node, what the driver is told to show, the expectation, the mask (None: refused), a part of what
# is said. The fake driver's PCI order is the minors' reverse.
BY_NVML: dict[str, tuple[tuple[int, ...], Mapping[str, str], dict[str, Any], str | None, str]] = {
    "one part": (
        (1,),
        FOUR | {"FAKE_NVML_MIG": ";3g.40gb"},
        devices(0, count=1),
        part(1, 1),
        "0000:70:00.0, MIG 3g.40gb",
    ),
    "a hole between the places": ((1,), FOUR, devices(1, count=3), part(1, 3), "cuda device 1 of 3, MIG-"),
    "several in one process": (
        (1,),
        FOUR,
        devices(2, 0, count=3, launcher="torchrun", processesPerNode=2),
        f"{part(1, 4)},{part(1, 1)}",
        "local rank 0 -> cuda device 2 of 3, MIG-",
    ),
    "several in one process, and a driver that shows one": (
        (1,),
        FOUR | OLD,
        devices(2, 0, count=3, launcher="torchrun", processesPerNode=2),
        None,
        "devices [2, 0] cannot be used by one process, since CUDA with driver 550.54.15 shows a process one part of a "
        "GPU (MIG) only, with R570 and newer several: set isolation: process, with one process for each",
    ),
    "one of several, and a driver that shows one": ((1,), FOUR | OLD, devices(2, count=3), part(1, 4), "MIG 2g.20gb"),
    "parts of two GPUs": (
        (0, 1),
        {"FAKE_NVML_MIG": "7g.80gb;3g.40gb,3g.40gb"},
        devices(2, 1, 0, count=3),
        f"{part(0, 1)},{part(1, 2)},{part(1, 1)}",
        "0000:80:00.0, MIG 7g.80gb",
    ),
    "a whole GPU beside parts": ((0, 1), FOUR, devices(3, count=4), uuid(0), "cuda device 3 of 4, GPU-"),
    "a whole GPU and parts in one process": (
        (0, 1),
        FOUR,
        devices(0, 3, count=4),
        None,
        "devices [0, 3] cannot be used by one process, since PyTorch reads whole GPUs or parts (MIG) from a mask: "
        "use one kind",
    ),
    "a partitioned GPU without parts": (
        (1,),
        {"FAKE_NVML_MIG": ";,"},
        devices(0, count=1),
        None,
        "1 cuda device expected, 0 found by NVML",
    ),
    "parts in the driver's own order": (
        (1,),
        FOUR,
        devices(0, count=3, order="fastest"),
        None,
        "devices [0] cannot be counted by order fastest, since the driver's numbers for parts are not known: "
        "use order: pci",
    ),
    "one part in the driver's own order": (
        (1,),
        {"FAKE_NVML_MIG": ";3g.40gb"},
        devices(0, count=1, order="fastest"),
        "0",
        "cuda device 0 of 1",
    ),
    "a part's product": (
        (1,),
        FOUR,
        devices(0, count=3, product=["NVIDIA-H100-80GB-HBM3-MIG-3g.40gb"]),
        part(1, 1),
        "",
    ),
    "replicas of one GPU": (
        (2,),
        {},
        devices(0, 1, count=2, product=["NVIDIA-H100-80GB-HBM3-SHARED"]),
        None,
        "2 cuda devices expected, 1 found (0000:60:00.0) by NVML: check the node's device plugin, "
        "which allocated more; replicas of a shared device count once",
    ),
    "one replica": ((2,), {}, devices(0, count=1, product=["NVIDIA-H100-80GB-HBM3-SHARED"]), uuid(2), ""),
    "Jetson Orin": ((0,), ORIN, devices(0, count=1), "0", "cuda device 0 of 1 (NVML)"),
    "Jetson Orin's UUID": ((0,), ORIN, devices(0, count=1), "0", "CUDA_VISIBLE_DEVICES has no names for Orin (nvgpu)"),
    "Jetson Orin, two expected": ((0,), ORIN, devices(0, 1), None, "2 or more cuda devices expected, 1 found by NVML"),
    "Jetson Orin beside a card": ((0, 1), ORIN, devices(0, 1, count=2), "0,1", "device 1 of 2, GPU-"),
    "the card beside Jetson Orin": ((0, 1), ORIN, devices(1, count=2), uuid(1), "device 1 of 2, GPU-"),
    "no PCI address at all": (
        (0,),
        {"FAKE_NVML_FAULT": "nvmlDeviceGetPciInfo_v3=3"},
        devices(0, count=1),
        uuid(0),
        "cuda device 0 of 1, GPU-",
    ),
    "no UUID": ((0,), {"FAKE_NVML_FAULT": "nvmlDeviceGetUUID=3"}, devices(0, count=1), "0", "0000:80:00.0"),
}


@pytest.mark.parametrize("name", BY_NVML)
def test_what_nvml_shows(name: str, box: Box, fake_nvml: Path) -> None:
    minors, env, expect, mask, said = BY_NVML[name]
    box.library(fake_nvml)
    box.nodes(*minors)
    end = box.start(expect=expect, env=env)
    assert said in end.err
    assert (end.status, end.mask if end.status == 0 else None) == (0 if mask else 78, mask)


def test_each_process_gets_the_uuid_of_its_own_part(box: Box, fake_nvml: Path) -> None:
    box.library(fake_nvml)
    box.nodes(1)
    launcher = {"OMPI_COMM_WORLD_SIZE": "2", "OMPI_COMM_WORLD_LOCAL_SIZE": "2", **FOUR, **OLD}
    masks = [
        box.start(
            *("rank", "env"),
            expect=each(2, 0, count=3),
            env={**launcher, "OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_LOCAL_RANK": rank},
        ).mask
        for rank in "01"
    ]
    assert masks == [part(1, 4), part(1, 1)]


def whole(box: Box) -> None:
    box.gpus(Gpu(0, A), Gpu(1, B))


def one_part(box: Box) -> None:
    box.gpus(Gpu(1, B))
    box.parts(1, (2, 0), others=(3,))


def two_parts(box: Box) -> None:
    box.gpus(Gpu(0, A), Gpu(1, B))
    box.parts(1, (2, 0), (3, 1), others=(4,))


def two_in_one_instance(box: Box) -> None:
    box.gpus(Gpu(1, B))
    box.parts(1, (2, 0), (2, 1))


def nobodys(box: Box) -> None:
    box.gpus(Gpu(0, A), Gpu(1, B))
    box.parts(1, others=(1, 2))


def managed(box: Box) -> None:
    whole(box)
    box.parts(3, others=(1,))
    for number in (1, 2):  # config and monitor
        box.write(f"dev/nvidia-caps/nvidia-cap{number}", "")


def hidden_proc(box: Box) -> None:
    two_parts(box)
    shutil.rmtree(box.root / "proc")


def without_gpus_in_proc(box: Box) -> None:
    two_parts(box)
    shutil.rmtree(box.root / "proc/driver/nvidia/gpus")


def jetson(box: Box) -> None:
    """A Jetson's container without NVML: the nodes that the toolkit's list names."""
    for name in ("nvmap", "nvhost-gpu", "nvhost-ctrl-gpu", "nvgpu/igpu0/ctrl"):
        box.write(f"dev/{name}", "")


def jetson_with_display(box: Box) -> None:
    jetson(box)
    box.nodes(0, 2)


def tegra_by_family(box: Box) -> None:
    box.write("sys/devices/soc0/family", "Tegra\n")
    box.nodes(0, 2)


TEGRA = "device nodes: Tegra's do not show the number of GPUs"
ONLY_NVML = "only NVML can tell the parts of a GPU (MIG) apart"
# name: the machine, the expectation, the mask (None: refused), how it is known, a part of what is said
WITHOUT_NVML: dict[str, tuple[Callable[[Box], None], dict[str, Any], str | None, str, str]] = {
    "one part": (one_part, devices(0, count=1), "0", "/proc/driver/nvidia", ONLY_NVML),
    "parts are counted": (
        two_parts,
        devices(0, count=2),
        None,
        "",
        "2 cuda devices expected, 3 found (0000:1a:00.0, 0000:3b:00.0, 0000:3b:00.0) by /proc/driver/nvidia",
    ),
    "the whole GPU beside them is known": (two_parts, devices(0, count=3), uuid(0), "/proc/driver/nvidia", ONLY_NVML),
    "a part among several is not": (
        two_parts,
        devices(1, count=3),
        None,
        "",
        "devices [1] cannot be named in CUDA_VISIBLE_DEVICES: no value for them is known by /proc/driver/nvidia\n"
        "  NVML: libnvidia-ml.so.1 is not found (add utility to NVIDIA_DRIVER_CAPABILITIES); "
        f"{ONLY_NVML}\n",
    ),
    "two parts of one instance": (
        two_in_one_instance,
        devices(0, 1, count=2, launcher="torchrun", processesPerNode=2),
        None,
        "",
        "devices [0, 1] cannot be used by one process, since CUDA with driver 550.54.15 shows",
    ),
    "nobody's parts": (nobodys, devices(0, count=1), uuid(0), "/proc/driver/nvidia", "cuda device 0 of 1"),
    "nodes that only manage": (managed, devices(1, count=2), uuid(1), "/proc/driver/nvidia", "cuda device 1 of 2"),
    "device nodes alone": (
        without_gpus_in_proc,
        devices(0, count=3),
        None,
        "",
        "devices [0] cannot be named in CUDA_VISIBLE_DEVICES: no value for them is known by device nodes",
    ),
    "device nodes alone, and /proc hidden": (
        hidden_proc,
        devices(0, count=3),
        "0",
        "",
        "device nodes: /dev/nvidia-caps has parts of GPUs (MIG), and no file names their GPUs",
    ),
    "WSL, without its library": (
        lambda box: box.write("dev/dxg", ""),
        devices(0, count=1),
        "0",
        "",
        "device nodes: /dev/dxg does not show the number of GPUs",
    ),
    "Jetson, without NVML": (jetson, devices(0, count=1), "0", "", TEGRA),
    "Jetson, and its display node": (jetson_with_display, devices(0, count=1), "0", "", TEGRA),
    "Tegra by its family": (tegra_by_family, devices(0, count=1), "0", "", TEGRA),
}


@pytest.mark.parametrize("name", WITHOUT_NVML)
def test_what_is_known_without_nvml(name: str, box: Box) -> None:
    lay_out, expect, mask, how, said = WITHOUT_NVML[name]
    lay_out(box)
    end = box.start(expect=expect)
    assert said in end.err
    if mask is None:
        assert end.status == 78
    else:
        assert (end.mask, end.receipt["how"]) == (mask, how)


@pytest.mark.parametrize(
    "value",
    [
        *(
            "void",
            "none",
            "all",
            "",
            "/var/run/nvidia-container-devices",
            "nvidia.com/gpu=0",
            "runtime.nvidia.com/gpu=all",
        ),
        *(
            "5,3",
            "GPU-99999999-0000-0000-0000-000000000000",
            "MIG-GPU-9/1/0",
            "0:1",
            "k8s.gpu.nvidia.com/claim=a-gpu-0",
        ),
    ],
)
def test_the_runtimes_variable_is_neither_used_nor_a_contradiction(value: str, nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(2, 0, count=3), env={"NVIDIA_VISIBLE_DEVICES": value})
    assert end.mask == f"{uuid(0)},{uuid(2)}"
    assert end.env["NVIDIA_VISIBLE_DEVICES"] == value
    assert "NVIDIA_VISIBLE_DEVICES" not in end.err


def test_devices_as_volume_mounts_are_no_device_nodes(nvml_box: Box) -> None:
    for name in (uuid(0), uuid(1), "cdi/nvidia.com/gpu/7"):
        nvml_box.write(f"var/run/nvidia-container-devices/{name}", "")
    env = {"NVIDIA_VISIBLE_DEVICES": "/var/run/nvidia-container-devices"}
    assert nvml_box.start(expect=devices(2, 0, count=3), env=env).mask == f"{uuid(0)},{uuid(2)}"


def test_under_wsl_the_library_is_asked_and_the_one_node_explained(box: Box, fake_nvml: Path) -> None:
    """The driver's library, without /proc/driver/nvidia or a node for each GPU, shows every GPU of the machine."""
    box.library(fake_nvml)
    box.write("dev/dxg", "")
    box.write("shown/nvidia0", "")
    box.write("shown/nvidia4", "")
    env = {"FAKE_NVML_DEV": str(box.root / "shown")}
    end = box.start(expect=devices(1, 0, count=2), env=env)
    assert (end.mask, end.receipt["how"]) == (f"{uuid(0)},{uuid(4)}", "NVML")
    refused = box.start(expect=devices(0, count=1), env=env)
    assert refused.status == 78
    assert "/dev/dxg is every GPU of the machine: under WSL a container cannot have only some of them" in refused.err


def test_the_display_node_of_a_jetson_is_no_second_gpu(box: Box, fake_nvml: Path) -> None:
    box.library(fake_nvml)
    jetson_with_display(box)
    box.write("shown/nvidia0", "")
    end = box.start(expect=devices(0, count=1), env={**ORIN, "FAKE_NVML_DEV": str(box.root / "shown")})
    assert (end.mask, end.receipt["how"]) == ("0", "NVML")
    assert "device nodes" not in end.err

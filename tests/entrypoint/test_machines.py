"""Tests the devices found and the devices of each process on machines of every shape: a table."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entrypoint.machines import MODEL, Box, Gpu, devices, left_over, uuid

A, B, C, D = "0000:1a:00.0", "0000:3b:00.0", "0000:86:00.0", "0000:c1:00.0"

# name: the machine, the expectation, the mask (or None: refused), how it is known, a part of the message
LAYOUTS: dict[str, tuple[Callable[[Box], None], dict[str, Any], str | None, str, str]] = {
    "minors in PCI order": (
        lambda box: box.gpus(Gpu(0, A), Gpu(1, B)),
        devices(0, 1),
        f"{uuid(0)},{uuid(1)}",
        "/proc/driver/nvidia",
        "",
    ),
    "minors against PCI order": (
        lambda box: box.gpus(Gpu(2, A), Gpu(1, B), Gpu(0, C)),
        devices(2, 0, count=3),
        f"{uuid(0)},{uuid(2)}",
        "/proc/driver/nvidia",
        "",
    ),
    "holes in the minors": (
        lambda box: box.gpus(Gpu(5, A), Gpu(3, C), Gpu(0, D)),
        devices(1, 0),
        f"{uuid(3)},{uuid(5)}",
        "/proc/driver/nvidia",
        "",
    ),
    "the host's other GPUs shown in /proc": (
        lambda box: box.gpus(Gpu(0, A, node=False), Gpu(1, B), Gpu(2, C, node=False), Gpu(3, D)),
        devices(1, 0, count=2),
        f"{uuid(3)},{uuid(1)}",
        "/proc/driver/nvidia",
        "",
    ),
    "one excluded by its driver": (
        lambda box: box.gpus(Gpu(0, A, excluded=True), Gpu(1, B)),
        devices(0, 1),
        None,
        "",
        "2 or more cuda devices expected, 1 found (0000:3b:00.0) by /proc/driver/nvidia",
    ),
    "PCI domains": (
        lambda box: box.gpus(Gpu(0, "0001:00:00.0"), Gpu(1, "0000:ff:00.0")),
        devices(0, 1),
        f"{uuid(1)},{uuid(0)}",
        "/proc/driver/nvidia",
        "",
    ),
    "a UUID not yet known": (
        lambda box: box.gpus(Gpu(0, A, uuid="GPU-????????-????-????-????-????????????"), Gpu(1, B)),
        devices(1, 0),
        "1,0",
        "/proc/driver/nvidia",
        "",
    ),
    "a UUID line missing, in a GPU not used": (
        lambda box: box.gpus(Gpu(0, A, uuid=None), Gpu(1, B)),
        devices(1, count=2),
        uuid(1),
        "/proc/driver/nvidia",
        "",
    ),
    "one GPU listed twice": (
        lambda box: box.gpus(Gpu(0, A, uuid=uuid(7)), Gpu(1, B, uuid=uuid(7))),
        devices(0, 1),
        None,
        "",
        f"{uuid(7)} found more than once by /proc/driver/nvidia: ask for fewer devices",
    ),
    "device nodes alone": (lambda box: box.nodes(0, 3, 11), devices(2, 0, count=3), "2,0", "device nodes", ""),
    "device nodes alone, one short": (
        lambda box: box.nodes(0, 3),
        devices(2, 0, count=3),
        None,
        "",
        "3 cuda devices expected, 2 found by device nodes\n"
        "  NVML: libnvidia-ml.so.1 is not found (add utility to NVIDIA_DRIVER_CAPABILITIES); "
        "/proc/driver/nvidia: not found\n  check the node's device plugin, which allocated more",
    ),
    "control nodes are no GPUs": (
        lambda box: box.nodes(),
        devices(0),
        None,
        "",
        "1 or more cuda devices expected, 0 found by device nodes\n"
        "  NVML: libnvidia-ml.so.1 is not found (add utility to NVIDIA_DRIVER_CAPABILITIES); "
        "/proc/driver/nvidia: not found\n  check the pod's request for devices",
    ),
    "nothing at all, /dev included": (
        lambda box: box.write("empty", ""),
        devices(0, count=1),
        None,
        "",
        "1 cuda device expected, 0 found by device nodes",
    ),
    "more than asked for": (
        lambda box: box.gpus(Gpu(0, A), Gpu(1, B), Gpu(2, C)),
        devices(0, count=1),
        None,
        "",
        "3 found (0000:1a:00.0, 0000:3b:00.0, 0000:86:00.0) by /proc/driver/nvidia\n"
        "  NVML: libnvidia-ml.so.1 is not found (add utility to NVIDIA_DRIVER_CAPABILITIES)\n"
        "  remove NVIDIA_VISIBLE_DEVICES from the image and the pod, or start the container without privileged",
    ),
    "another product": (
        lambda box: box.gpus(Gpu(0, A)),
        devices(0, product=["NVIDIA-A100-SXM4-80GB"]),
        None,
        "",
        "product NVIDIA-A100-SXM4-80GB expected, NVIDIA-H100-80GB-HBM3 found by /proc/driver/nvidia",
    ),
    "the product, as a shared one": (
        lambda box: box.gpus(Gpu(0, A)),
        devices(0, product=["NVIDIA-A100-SXM4-80GB", "NVIDIA-H100-80GB-HBM3-SHARED"]),
        uuid(0),
        "/proc/driver/nvidia",
        "",
    ),
    "a product that cannot be known": (
        lambda box: box.nodes(0),
        devices(0, product=["NVIDIA-H100-80GB-HBM3"]),
        None,
        "",
        "product NVIDIA-H100-80GB-HBM3 expected, an unknown name found by device nodes",
    ),
    "the driver's own order": (
        lambda box: box.gpus(Gpu(1, A), Gpu(0, B)),
        devices(1, 0, order="fastest"),
        "1,0",
        "/proc/driver/nvidia",
        "",
    ),
    "more processes than devices": (
        lambda box: box.nodes(0),
        devices(0, launcher="torchrun", processesPerNode=2),
        None,
        "",
        "2 processes for 1 cuda device: use as many devices, or fewer processes",
    ),
    "shares that are not equal": (
        lambda box: box.nodes(0, 1, 2),
        devices(0, 1, 2, launcher="torchrun", processesPerNode=2, isolation="process"),
        None,
        "",
        "3 devices have no equal shares for 2 processes: change a number, or the isolation",
    ),
    "a device named twice": (
        lambda box: box.nodes(0),
        devices(0, 0),
        None,
        "",
        "devices [0, 0] names a position twice",
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout(name: str, box: Box) -> None:
    lay_out, expect, mask, how, message = LAYOUTS[name]
    lay_out(box)
    end = box.start(expect=expect)
    if mask is None:
        assert end.status == 78
        assert not end.out
        assert end.message.startswith("k8sel: node box: ")
        assert message in end.message
        assert end.message in end.err
    else:
        order = "FASTEST_FIRST" if expect.get("order") == "fastest" else "PCI_BUS_ID"
        assert (end.mask, end.env["CUDA_DEVICE_ORDER"]) == (mask, order)
        assert end.receipt["how"] == how
        assert not end.message


def test_nvml_is_asked_first_and_sorted_by_pci_address(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(2, 0, count=3, launcher="torchrun", processesPerNode=2))
    assert end.mask == f"{uuid(0)},{uuid(2)}"
    assert [rank["devices"][0]["pci"] for rank in end.receipt["ranks"]] == ["0000:80:00.0", "0000:60:00.0"]
    assert "local rank 0 -> cuda device 2 of 3, " + uuid(0) + ", 0000:80:00.0 (NVML); local rank 1 -> " in end.err


def test_one_line_of_summary_and_one_of_receipt(nvml_box: Box) -> None:
    nvml_box.write("sys/bus/pci/devices/0000:60:00.0/numa_node", "1\n")
    end = nvml_box.start(expect=devices(0, count=3, job="finetune", jobFile="ab" * 32))
    assert len(end.err.splitlines()) == 2
    assert end.receipt["job"] == "finetune"
    assert end.receipt["jobFile"] == "ab" * 32
    assert (end.receipt["driver"], end.receipt["runtime"]) == ("570.00.00", "12.8")
    assert (end.receipt["nodes"], end.receipt["processesPerNode"], end.receipt["mode"]) == (1, 1, "node")
    assert end.receipt["ranks"] == [
        {
            "localRank": 0,
            "positions": [0],
            "devices": [
                {
                    "uuid": uuid(2),
                    "pci": "0000:60:00.0",
                    "part": "",
                    "name": MODEL,
                    "memory": 80 * 2**30,
                    "numa": 1,
                }
            ],
        }
    ]


@pytest.mark.parametrize("code", [1, 4, 9, 12, 15, 18, 999])
def test_an_nvml_error_falls_through_to_the_next_way(code: int, nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(0, count=3), env={"FAKE_NVML_RESULT": str(code)})
    assert (end.mask, end.receipt["how"]) == ("0", "device nodes")
    assert f"note: NVML: nvmlInit_v2: error {code} (" in end.err


def test_the_reason_for_a_fall_through_is_in_the_message(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(0, count=4), env={"FAKE_NVML_RESULT": "18"})
    assert end.status == 78
    assert "error 18 (driver and library are of different versions)" in end.message


def test_a_crash_of_nvml_falls_through(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(0, count=3), env={"FAKE_NVML_CRASH": "1"})
    assert (end.mask, end.receipt["how"]) == ("0", "device nodes")
    assert "NVML: it crashed (SIGABRT)" in end.err


def test_a_hang_of_nvml_is_ended_and_leaves_nothing_behind(nvml_box: Box) -> None:
    start = time.monotonic()
    end = nvml_box.start("sh", "-c", "echo started", expect=devices(0, count=4), env={"FAKE_NVML_HANG": "1"})
    assert time.monotonic() - start < 10
    assert (end.status, end.out) == (78, "")
    assert "NVML: no answer in 7 s" in end.message
    assert not left_over([str(nvml_box.entrypoint), "echo started"])


def test_products_of_mixed_nodes(nvml_box: Box) -> None:
    names = {"FAKE_NVML_NAMES": "NVIDIA A100-SXM4-80GB"}  # of minor 0
    end = nvml_box.start(expect=devices(0, count=3, product=["NVIDIA-H100-80GB-HBM3"]), env=names)
    assert end.status == 78
    assert "NVIDIA-A100-SXM4-80GB found by NVML" in end.message


def test_a_library_for_another_machine_is_no_crash(box: Box, tmp_path: Path) -> None:
    box.write("lib/libnvidia-ml.so.1", "not a library")
    box.nodes(0)
    assert box.start(expect=devices(0)).receipt["how"] == "device nodes"

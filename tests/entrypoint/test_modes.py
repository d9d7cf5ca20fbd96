"""Modes, check levels, what is written by hand, and everything that stops before the command starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from entrypoint.machines import Box, devices, uuid

TORCHRUN = {"RANK": "5", "WORLD_SIZE": "8", "LOCAL_RANK": "1", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "none"}
OPENMPI = {
    "OMPI_COMM_WORLD_RANK": "3",
    "OMPI_COMM_WORLD_SIZE": "4",
    "OMPI_COMM_WORLD_LOCAL_RANK": "1",
    "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
}
HYDRA = {"PMI_RANK": "2", "PMI_SIZE": "4", "MPI_LOCALRANKID": "0", "MPI_LOCALNRANKS": "2"}

STOPS: dict[str, tuple[list[str], dict[str, Any] | None, dict[str, str], str]] = {
    "no command": ([], None, {}, "no command given"),
    "no command after --": (["--"], None, {}, "no command given"),
    "no expectation": (["env"], None, {}, "no expected devices are set: set K8SEL_ACCELERATOR"),
    "unknown option": (["--frobnicate", "env"], None, {}, "unknown option --frobnicate"),
    "no such program": (
        ["torchrun", "x.py"],
        devices(0),
        {},
        "no program torchrun on PATH (",
    ),
    "no such path": (["/nowhere/python"], devices(0), {}, "/nowhere/python is not in the image"),
    "a folder": (["/tmp"], devices(0), {}, "/tmp is a folder, not a program"),
    "not JSON": (["env"], None, {"K8SEL_EXPECT": "{"}, "K8SEL_EXPECT is not JSON"),
    "no object": (["env"], None, {"K8SEL_EXPECT": "[]"}, "K8SEL_EXPECT is not of version 1"),
    "another version": (["env"], devices(0, version=2), {}, "K8SEL_EXPECT is not of version 1"),
    "unknown field": (["env"], devices(0, frob=1), {}, "K8SEL_EXPECT has unknown fields: frob"),
    "no devices": (["env"], {}, {}, "K8SEL_EXPECT lacks: devices"),
    "devices not a list": (["env"], {"devices": 2}, {}, "K8SEL_EXPECT: devices cannot be 2"),
    "a negative device": (["env"], devices(-1), {}, "K8SEL_EXPECT: devices cannot be [-1]"),
    "a device true": (["env"], {"devices": [True]}, {}, "K8SEL_EXPECT: devices cannot be [true]"),
    "a count in words": (["env"], devices(0, count="two"), {}, 'K8SEL_EXPECT: count cannot be "two"'),
    "nodes none": (["env"], devices(0, nodes=None), {}, "K8SEL_EXPECT: nodes cannot be null"),
    "another check": (["env"], devices(0, check="maybe"), {}, 'K8SEL_EXPECT: check cannot be "maybe"'),
    "unknown accelerator": (
        ["env"],
        {"accelerator": "gpu", "devices": [0]},
        {},
        "accelerator gpu is none of cpu, cuda",
    ),
    "both ways": (["env"], devices(0), {"K8SEL_COUNT": "1"}, "K8SEL_EXPECT and K8SEL_COUNT are both set"),
    "no accelerator": (["env"], None, {"K8SEL_COUNT": "1"}, "K8SEL_ACCELERATOR is not set"),
    "bad count": (
        ["env"],
        None,
        {"K8SEL_ACCELERATOR": "cuda", "K8SEL_COUNT": "-1"},
        "K8SEL_COUNT=-1 is not a whole number",
    ),
    "bad devices": (
        ["env"],
        None,
        {"K8SEL_ACCELERATOR": "cuda", "K8SEL_DEVICES": "0;1"},
        "K8SEL_DEVICES=0;1 is not a list of positions",
    ),
    "bad order": (
        ["env"],
        None,
        {"K8SEL_ACCELERATOR": "cuda", "K8SEL_ORDER": "up"},
        "K8SEL_ORDER=up is none of pci, fastest",
    ),
    "bad check": (
        ["env"],
        None,
        {"K8SEL_ACCELERATOR": "cuda", "K8SEL_CHECK": "no"},
        "K8SEL_CHECK=no is none of enforce",
    ),
    "no product": (
        ["env"],
        None,
        {"K8SEL_ACCELERATOR": "cuda", "K8SEL_PRODUCT": " , "},
        "K8SEL_PRODUCT= ,  is not a list of products",
    ),
    "a letter too few": (
        ["env"],
        None,
        {"K8SEL_ACCELERATOR": "cuda", "K8SEL_DEVICE": "1"},
        "unknown variable K8SEL_DEVICE: write K8SEL_DEVICES, or remove it",
    ),
    "a letter too many": (
        ["env"],
        None,
        {"K8SEL_ACCELERATOR": "cuda", "K8SEL_PRODUCTS": "NVIDIA-L4"},
        "unknown variable K8SEL_PRODUCTS: write K8SEL_PRODUCT, or remove it",
    ),
    "rank without a launcher": (["rank", "env"], devices(0), {}, "no rank of this process is set"),
    "a rank that is no number": (
        ["rank", "env"],
        devices(0),
        {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_WORLD_SIZE": "1", "LOCAL_RANK": "1" * 5000},
        "no rank of this process is set",
    ),
    "an order a vendor lacks": (
        ["env"],
        {"accelerator": "xpu", "devices": [0], "order": "fastest"},
        {},
        "xpu has no order fastest: use pci",
    ),
    "an order a mask cannot write": (
        ["env"],
        {"accelerator": "xpu", "devices": [1, 0]},
        {},
        "devices [1, 0] cannot keep that order, since ZE_AFFINITY_MASK is a set",
    ),
}


def test_what_looks_like_a_program(box: Box, tmp_path: Path) -> None:
    (tmp_path / "train").write_text("#!/bin/sh\n")
    (tmp_path / "linked").symlink_to("/nowhere/train")
    (tmp_path / "folder").mkdir()
    path = {"PATH": f"/bin:{tmp_path}"}
    for name, what in (
        ("train", "cannot be executed: run chmod +x on it"),
        ("linked", "is a link to /nowhere/train, which"),
    ):
        assert f"{tmp_path}/{name} {what}" in box.start(f"{tmp_path}/{name}", expect=devices()).message
        assert (
            f"no program {name} on PATH (/bin:{tmp_path}), and {tmp_path}/{name} {what}"
            in box.start(name, expect=devices(), env=path).message
        )
    assert box.start("folder", expect=devices(), env=path).message.endswith(f"(/bin:{tmp_path})\n")


@pytest.mark.parametrize("name", STOPS)
def test_stop(name: str, nvml_box: Box) -> None:
    words, expect, env, message = STOPS[name]
    end = nvml_box.start(*(words or ["--"]), expect=expect, env=env)
    assert (end.status, end.out) == (78, "")
    assert message in end.message
    assert end.message == end.err


def test_all_problems_of_a_node_at_once(nvml_box: Box) -> None:
    expect = devices(0, count=4, product=["NVIDIA-L4"])
    end = nvml_box.start(expect=expect, env={"CUDA_VISIBLE_DEVICES": "3"})
    assert end.status == 78
    assert len(end.message.splitlines()) == 3


def test_the_message_is_no_longer_than_kubernetes_keeps(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(0, product=["x" * 5000]))
    assert len(end.message.encode()) == 4096
    assert end.message.endswith("...\n")


def test_a_termination_log_that_cannot_be_written_is_no_trouble(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(0, count=4), env={"K8SEL_TERMINATION_LOG": "/nowhere/log"})
    assert end.status == 78


@pytest.mark.parametrize("given", [uuid(2), "0"])
def test_a_mask_that_says_the_same_may_be_there(given: str, nvml_box: Box) -> None:
    assert nvml_box.start(expect=devices(0), env={"CUDA_VISIBLE_DEVICES": given}).mask == uuid(2)


@pytest.mark.parametrize(("name", "value"), [("CUDA_VISIBLE_DEVICES", ""), ("CUDA_DEVICE_ORDER", "FASTEST_FIRST")])
def test_a_variable_that_contradicts(name: str, value: str, nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(0), env={name: value})
    assert end.status == 78
    assert f"node box: {name}={value} is set, " in end.message
    assert "remove it from the image or the job's env" in end.message


def test_warn_goes_on_with_what_is_there(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(3, 2, 0, count=4, check="warn"))
    assert end.mask == f"{uuid(0)},{uuid(2)}"
    assert "4 cuda devices expected, 3 found" in end.err
    assert "(check: warn, continuing)" in end.err
    assert not end.message


def test_off_does_not_look(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(2, 0, count=9, check="off"), env={"FAKE_NVML_CRASH": "1"})
    assert end.mask == "2,0"
    assert "devices are not checked" in end.err


def test_off_alone_only_starts_the_command(box: Box) -> None:
    command = ["env", "-i", "true"]
    assert box.start(*command, env={"K8SEL_CHECK": "off", "K8SEL_ROOT": ""}).status == 78
    archive = str(box.entrypoint / "entrypoint.pyz")
    done = subprocess.run(
        [sys.executable, archive, "/bin/echo", "hello"], env={"K8SEL_CHECK": "off"}, capture_output=True, check=True
    )
    assert (done.stdout, done.stderr) == (b"hello\n", b"")


def test_a_job_without_devices_sees_none(nvml_box: Box) -> None:
    end = nvml_box.start(expect={"accelerator": "cpu", "devices": []})
    assert (end.mask, end.env["HIP_VISIBLE_DEVICES"]) == ("", "-1")
    assert "note: unused devices in this container, hidden from the program: " in end.err
    assert nvml_box.start(expect=devices()).mask == ""


def test_a_job_without_devices_and_a_mask_that_shows_some(box: Box) -> None:
    end = box.start(expect={"accelerator": "cpu", "devices": []}, env={"CUDA_VISIBLE_DEVICES": "0"})
    assert end.status == 78
    assert "the job uses no device" in end.message


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"K8SEL_ACCELERATOR": "cpu", "K8SEL_DEVICES": "1,0"}, "2 cpu devices expected, and 0 found"),
        ({"K8SEL_ACCELERATOR": "cpu", "K8SEL_COUNT": "1"}, "1 cpu device expected, and 0 found"),
        ({"K8SEL_ACCELERATOR": "mps"}, "1 mps device expected, and 0 found"),
        ({"K8SEL_ACCELERATOR": "cuda", "K8SEL_COUNT": "2", "K8SEL_DEVICES": ""}, "2 cuda devices expected, and dev"),
        ({"K8SEL_ACCELERATOR": "cpu", "K8SEL_PRODUCT": "NVIDIA-L4"}, "product is set, and the job uses no device"),
        (
            {"K8SEL_ACCELERATOR": "cuda", "K8SEL_COUNT": "0", "K8SEL_MEMORY": "40Gi"},
            "memory is set, and the job uses no device",
        ),
    ],
)
def test_what_is_asked_of_devices_that_no_process_gets(given: dict[str, str], message: str, nvml_box: Box) -> None:
    end = nvml_box.start(env=given)
    assert (end.status, end.out) == (78, "")
    assert message in end.message
    assert nvml_box.start(env={**given, "K8SEL_CHECK": "warn"}).status == 0
    assert nvml_box.start(env={**given, "K8SEL_CHECK": "off"}).status == 0


def test_by_hand(nvml_box: Box) -> None:
    plain = {"K8SEL_ACCELERATOR": "cuda", "K8SEL_COUNT": "3", "K8SEL_DEVICES": "2, 0"}
    assert nvml_box.start("--", "env", env=plain).mask == f"{uuid(0)},{uuid(2)}"
    assert nvml_box.start(env={"K8SEL_ACCELERATOR": "cuda", "K8SEL_COUNT": "3"}).mask == ",".join(map(uuid, (2, 1, 0)))
    assert nvml_box.start(env={"K8SEL_ACCELERATOR": "cuda"}).mask == uuid(2)
    others = {"K8SEL_SERVICE_HOST": "10.0.0.1", "K8SEL_NODE": "box", "K8S": "1", "K8SEL_": ""}
    assert nvml_box.start(env={"K8SEL_ACCELERATOR": "cuda", **others}).mask == uuid(2)
    product = {"K8SEL_ACCELERATOR": "cuda", "K8SEL_PRODUCT": "NVIDIA-L4,NVIDIA-T4"}
    assert "product NVIDIA-L4 or NVIDIA-T4 expected" in nvml_box.start(env=product).message


@pytest.mark.parametrize(
    ("launcher", "rank", "local"),
    [(TORCHRUN, "5", 1), (OPENMPI, "3", 1), (HYDRA, "2", 0), ({**OPENMPI, "RANK": "9"}, "3", 1)],
)
def test_rank_exports_torch_names(launcher: dict[str, str], rank: str, local: int, nvml_box: Box) -> None:
    expect = devices(2, 0, launcher="mpirun", processesPerNode=2)
    end = nvml_box.start("rank", "--", "env", expect=expect, env={**launcher, "MASTER_ADDR": "launcher"})
    env = end.env
    assert (env["RANK"], env["LOCAL_RANK"], env["LOCAL_WORLD_SIZE"]) == (rank, str(local), "2")
    assert (env["MASTER_ADDR"], end.mask) == ("launcher", f"{uuid(0)},{uuid(2)}")
    assert (end.receipt["rank"], end.receipt["mode"]) == (rank, "rank")
    assert [each["localRank"] for each in end.receipt["ranks"]] == [local]


def test_rank_with_a_mask_of_its_own(nvml_box: Box) -> None:
    expect = devices(2, 0, launcher="torchrun", processesPerNode=2, isolation="process")
    outer = nvml_box.start(expect=expect)
    assert outer.mask == f"{uuid(0)},{uuid(2)}"
    inner = nvml_box.start("rank", "env", expect=expect, env={**TORCHRUN, "CUDA_VISIBLE_DEVICES": outer.mask or ""})
    assert (inner.mask, inner.env["LOCAL_RANK"]) == (uuid(2), "1")


def test_rank_of_a_launcher_that_started_another_number(nvml_box: Box) -> None:
    end = nvml_box.start("rank", "env", expect=devices(0, launcher="mpirun"), env=OPENMPI)
    assert end.status == 78
    assert "1 processes expected on this node, 2 started: start 1" in end.message


def test_rank_beyond_the_plan(nvml_box: Box) -> None:
    launcher = {**OPENMPI, "OMPI_COMM_WORLD_LOCAL_RANK": "2"}
    end = nvml_box.start("rank", "env", expect=devices(2, 0, launcher="mpirun", processesPerNode=2), env=launcher)
    assert end.status == 78
    assert "2 processes expected on this node, local rank 2 found: start 2" in end.message


def test_a_command_that_is_called_like_a_mode(nvml_box: Box) -> None:
    end = nvml_box.start("--", "check", expect=devices(0))
    assert "no program check on PATH" in end.message


def test_threads_of_the_user_stay(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(0), env={"OMP_NUM_THREADS": "7"})
    assert end.env["OMP_NUM_THREADS"] == "7"
    assert nvml_box.start(expect=devices(0, threadsPerProcess=5)).env["OMP_NUM_THREADS"] == "5"


def test_help_and_version(box: Box) -> None:
    helped = box.start("--help")
    assert helped.status == 0
    for word in ("K8SEL_EXPECT", "K8SEL_DEVICES", "K8SEL_CHECK", "gate", "rank", "check", "78"):
        assert word in helped.out
    assert all(len(line) < 130 for line in helped.out.splitlines())
    assert box.start("--version").out.startswith("k8sel-entrypoint ")

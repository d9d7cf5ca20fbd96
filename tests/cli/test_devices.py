"""`k8sel devices`: this machine's devices, on machines that are laid out as folders."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from entrypoint import rooted
from entrypoint.machines import Box, Gpu, uuid
from entrypoint.trees import Card, amd, bank, drm, gaudi, kfd

from k8sel.facts.accelerators import ROWS, owned_env
from k8sel.facts.sources import of_row, values

CLEAN = {name: value for name, value in os.environ.items() if name not in owned_env()}


@pytest.fixture
def box(tmp_path: Path) -> Box:
    """A machine without any device."""
    made = Box(tmp_path / "machine", tmp_path)
    made.write("uname", "Linux x86_64\n")
    return made


def k8sel(box: Box, *args: str, **env: str) -> subprocess.CompletedProcess[str]:
    environ = {**CLEAN, "K8SEL_ROOT": str(box.root), **env}
    command = [sys.executable, *rooted.K8SEL, *args]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environ)


def types(box: Box, *args: str) -> dict[str, dict[str, Any]]:
    shown = k8sel(box, "devices", "-o", "json", *args)
    assert shown.returncode == 0, shown.stderr
    return {each["type"]: each for each in json.loads(shown.stdout)["types"]}


def workstation(box: Box) -> None:
    """Two cards whose minors go against PCI order, on two sockets, and an integrated GPU of another vendor."""
    box.gpus(Gpu(1, "0000:3b:00.0"), Gpu(0, "0000:86:00.0"))
    box.write("sys/bus/pci/devices/0000:3b:00.0/numa_node", "0\n")
    box.write("sys/bus/pci/devices/0000:86:00.0/numa_node", "1\n")
    drm(box, Card(128, "0000:00:02.0"))


def test_a_variable_cannot_replace_the_machine(box: Box) -> None:
    workstation(box)
    command = [sys.executable, "-m", "k8sel", "devices"]
    forged = {**CLEAN, "K8SEL_ROOT": str(box.root)}
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=forged)
    assert uuid(0) not in done.stdout + done.stderr


def test_the_list_is_in_the_order_that_job_files_count(box: Box) -> None:
    workstation(box)
    shown = k8sel(box, "devices")
    assert (shown.returncode, shown.stderr) == (0, "")
    gpus, igpu = shown.stdout.split("\n\n")
    assert gpus.split("\nnote: NVML: libnvidia-ml.so.1 is not found")[0] == (
        "cuda: NVIDIA GPU (CUDA): 2 devices by /proc/driver/nvidia, driver 550.54.15\n"
        "INDEX  PCI           UUID                                      PRODUCT                MEMORY  NUMA\n"
        f"0      0000:3b:00.0  {uuid(1)}  NVIDIA-H100-80GB-HBM3  -       0\n"
        f"1      0000:86:00.0  {uuid(0)}  NVIDIA-H100-80GB-HBM3  -       1"
    )
    assert igpu == (
        "xpu: Intel GPU (XPU): 1 device by /dev/dri\n"
        "INDEX  PCI           UUID  PRODUCT  MEMORY  NUMA\n"
        "0      0000:00:02.0  -     -        -       -\n"
    )


def test_one_type_alone(box: Box) -> None:
    workstation(box)
    assert k8sel(box, "devices", "--type", "xpu").stdout.startswith("xpu: Intel GPU (XPU): 1 device by /dev/dri\n")
    assert list(types(box, "--type", "xpu")) == ["xpu"]


def test_json_says_what_is_known_and_null_for_the_rest(box: Box) -> None:
    workstation(box)
    found = types(box)
    assert found["cuda"]["devices"][1] == {
        "index": 1,
        "pci": "0000:86:00.0",
        "part": None,
        "uuid": uuid(0),
        "product": "NVIDIA-H100-80GB-HBM3",
        "name": "NVIDIA H100 80GB HBM3",
        "memory": None,
        "numa": 1,
    }
    assert (found["cuda"]["how"], found["cuda"]["driver"]) == ("/proc/driver/nvidia", "550.54.15")
    (igpu,) = found["xpu"]["devices"]
    assert (igpu["pci"], igpu["uuid"], igpu["product"], igpu["numa"]) == ("0000:00:02.0", None, None, None)
    assert found["hpu"]["devices"] == []


def test_memory_and_product_by_the_drivers_library(box: Box, fake_nvml: Path) -> None:
    box.nodes(0, 1)
    box.library(fake_nvml)
    environ = {"FAKE_NVML_DEV": str(box.root / "dev")}
    shown = k8sel(box, "devices", **environ).stdout.splitlines()
    assert shown[0].startswith("cuda: NVIDIA GPU (CUDA): 2 devices by NVML, driver ")
    gpu = json.loads(k8sel(box, "devices", "--type", "cuda", "-o", "json", **environ).stdout)["types"][0]["devices"][0]
    assert gpu["memory"] > 2**30
    assert f"{gpu['memory'] / 2**30:.1f}GiB" in shown[2].split()


def test_parts_of_a_partitioned_gpu_are_devices(box: Box, fake_nvml: Path) -> None:
    box.nodes(0, 1)
    box.library(fake_nvml)
    environ = {"FAKE_NVML_DEV": str(box.root / "dev"), "FAKE_NVML_MIG": ";3g.40gb,,2g.20gb"}
    header, *lines = k8sel(box, "devices", "--type", "cuda", **environ).stdout.splitlines()[1:]
    assert header.split()[:4] == ["INDEX", "PCI", "PART", "UUID"]
    assert [line.split()[0] for line in lines] == [str(number) for number in range(len(lines))]
    assert any(" MIG-" in line for line in lines)
    assert "PART" not in k8sel(box, "devices", **{**environ, "FAKE_NVML_MIG": ""}).stdout


@pytest.mark.parametrize("kind", ["hpu", "rocm"])
def test_other_vendors(box: Box, kind: str) -> None:
    gaudi(box, (0, 3), (1, 2))
    kfd(box, (0, "0"), (128, "1"), (129, "2"))
    drm(box, *amd((128, "c1"), (129, "0a")))
    bank(box, 1, 0, heap=1, size=2**37)
    found = types(box, "--type", kind)[kind]["devices"]
    addresses = {"hpu": ["0000:01:00.0", "0000:00:00.0"], "rocm": ["0000:0a:00.0", "0000:c1:00.0"]}
    assert [device["pci"] for device in found] == addresses[kind]
    assert [device["memory"] for device in found] == [None, 2**37 if kind == "rocm" else None]


def test_no_device_is_an_answer_too(box: Box) -> None:
    shown = k8sel(box, "devices")
    assert (shown.returncode, shown.stderr) == (0, "")
    first, *notes = shown.stdout.splitlines()
    assert first.startswith("no device of any kind is here: looked for cuda (device nodes), xpu (/dev/dri), ")
    assert any(note.startswith("note: NVML: libnvidia-ml.so.1 is not found") for note in notes)
    assert k8sel(box, "devices", "--type", "xpu").stdout == "no xpu device is here: looked for xpu (/dev/dri)\n"


def test_a_mask_in_the_shell_is_named_and_hides_nothing(box: Box) -> None:
    workstation(box)
    shown = k8sel(box, "devices", CUDA_VISIBLE_DEVICES="1")
    assert shown.stdout == k8sel(box, "devices").stdout
    assert shown.stderr == (
        "note: this shell sets CUDA_VISIBLE_DEVICES=1: the list has all devices, but a program started here sees only "
        "those in this mask. Unset it before `k8sel run`\n"
    )
    assert json.loads(k8sel(box, "devices", "-o", "json", CUDA_VISIBLE_DEVICES="1").stdout)["masks"] == {
        "CUDA_VISIBLE_DEVICES": "1"
    }


def test_a_mac(box: Box) -> None:
    box.write("uname", "Darwin arm64\n")
    assert k8sel(box, "devices").stdout.splitlines()[0] == "mps: Apple GPU (MPS): 1 device by uname"


def test_a_type_that_is_none() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "k8sel", "devices", "--type", "cudas"], capture_output=True, text=True, check=False
    )
    assert shown.returncode == 2
    assert shown.stderr.startswith('--type: not supported: "cudas" is not one of auto, cuda, xpu, ')
    assert shown.stderr.endswith("Hint: did you mean cuda?\n")


def test_the_facts_of_the_types_that_are_here(box: Box) -> None:
    workstation(box)
    plain, shown = k8sel(box, "devices"), k8sel(box, "devices", "--facts")
    assert (shown.returncode, shown.stderr) == (0, "")
    assert shown.stdout.startswith(plain.stdout)
    _, cuda, xpu = shown.stdout[len(plain.stdout) :].split("\nfacts about ")
    assert cuda.splitlines()[0] == "cuda"
    assert cuda.splitlines()[1].split() == ["FACT", "READ", "SOURCE"]
    assert [line.split()[0] for line in xpu.splitlines()[2:]] == [
        fact.field for fact in of_row("xpu", values(ROWS["xpu"])) for _ in fact.sources
    ]


def test_the_facts_of_the_type_that_is_given(box: Box) -> None:
    assert "\nfacts about " not in k8sel(box, "devices", "--facts").stdout
    shown = k8sel(box, "devices", "--facts", "--type", "mlu").stdout
    assert shown.startswith("no mlu device is here")
    assert "\nfacts about mlu\nFACT " in shown


def test_json_has_each_source_of_a_fact(box: Box) -> None:
    found = types(box, "--type", "xpu", "--facts")["xpu"]["facts"]
    (mask,) = [fact for fact in found if fact["fact"] == "maskEnv"]
    assert mask["value"] == "ZE_AFFINITY_MASK"
    assert [set(source) for source in mask["sources"]] == [{"source", "day"}] * len(mask["sources"])
    assert "facts" not in types(box)["xpu"]


def test_no_client_is_imported() -> None:
    code = (
        "import sys; sys.argv = ['k8sel', 'devices']\n"
        "from k8sel.cli.main import application; application(sys.argv[1:])(standalone_mode=False)\n"
        "bad = {'kubernetes', 'docker', 'jsonschema', 'rich', 'urllib3', 'yaml'} & set(sys.modules)\n"
        "sys.exit(f'imported: {bad}' if bad else 0)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")

"""`k8sel devices --record`: what it writes, and that the machine can be laid out again from it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from entrypoint import recorded, rooted
from entrypoint.machines import Box, Gpu, devices, uuid
from entrypoint.trees import Card, amd, drm, gaudi, kfd, neuron, tiles
from k8sel.facts.accelerators import owned_env
from k8sel.machine import recording

CLEAN = {name: value for name, value in os.environ.items() if name not in owned_env()}
SERIAL = "692231000131"


def workstation(box: Box) -> None:
    """Two GPUs of one driver, one node that another container has, and cards with tiles, of which tiles are counted."""
    box.gpus(Gpu(1, "0000:3b:00.0"), Gpu(0, "0000:86:00.0"), Gpu(2, "0000:c1:00.0"))
    recorded.refuse(box.root / "dev/nvidia2")
    card = Card(128, "1a", driver="xe")
    drm(box, card)
    box.write("dev/dri/by-path/pci-0000:1a:00.0-render", "")
    tiles(box, card, 2**30, 2**30)
    box.write("sys/bus/pci/devices/0000:3b:00.0/numa_node", "1\n")


def accelerators(box: Box) -> None:
    """Devices of three vendors, of which one has a serial number in /sys."""
    gaudi(box, (0, 3), (1, 2))
    neuron(box, 0, 1)
    drm(box, *amd((128, "0000:c1:00.0"), (129, "0000:26:00.0")))
    kfd(box, (0, "0"), (128, "1234"), (129, "4321"))
    properties = box.root / "sys/class/kfd/kfd/topology/nodes/1/properties"
    properties.write_text(f"{properties.read_text()}unique_id {SERIAL}\n")


def parts(box: Box) -> None:
    box.nodes(0, 1, 2)


# name: the machine, variables of its drivers
MACHINES: dict[str, tuple[Callable[[Box], None], dict[str, str]]] = {
    "a workstation": (workstation, {"ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}),
    "other accelerators": (accelerators, {}),
    "GPUs with parts": (parts, {"FAKE_NVML_MIG": ";3g.40gb,,1g.10gb"}),
}


def k8sel(box: Box, *words: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *rooted.K8SEL, "devices", *words],
        env={**CLEAN, "K8SEL_ROOT": str(box.root), "FAKE_NVML_DEV": str(box.root / "dev"), **env},
        capture_output=True,
        text=True,
        check=False,
    )


def found(box: Box, env: dict[str, str]) -> list[dict[str, Any]]:
    done = k8sel(box, "-o", "json", env=env)
    assert done.returncode == 0, done.stderr
    types: list[dict[str, Any]] = json.loads(done.stdout)["types"]
    return types


@pytest.fixture
def empty(tmp_path: Path, entrypoint_folder: Path) -> Box:
    """Where a recorded machine is laid out again."""
    return Box(tmp_path / "again", entrypoint_folder)


@pytest.fixture(params=MACHINES)
def sent(request: pytest.FixtureRequest, box: Box, fake_nvml: Path, tmp_path: Path) -> Path:
    """A recording of one of the machines above."""
    lay_out, env = MACHINES[request.param]
    lay_out(box)
    box.write("uname", "Linux x86_64\n")
    if "FAKE_NVML_MIG" in env:
        box.library(fake_nvml)
    done = k8sel(box, "--record", str(tmp_path / "sent"), env=env)
    assert done.returncode == 0, done.stderr
    return tmp_path / "sent"


def test_a_recorded_machine_is_laid_out_again(sent: Path, empty: Box, recorded_nvml: Path) -> None:
    _same(sent, empty, recorded_nvml)


@pytest.mark.parametrize("folder", recorded.all_of(), ids=lambda folder: folder.name)
def test_every_recording_that_was_sent_gives_the_same(folder: Path, empty: Box, recorded_nvml: Path) -> None:
    _same(folder, empty, recorded_nvml)


def _same(sent: Path, box: Box, library: Path) -> None:
    layout, before = recorded.read(sent)
    env = recorded.lay_out(layout, box, library)
    assert [_facts(each) for each in found(box, env)] == [_facts(each) for each in before["types"]]
    for each in before["types"]:
        if each["devices"] and not any(device["part"] for device in each["devices"]):
            _checked(each, box, env)


def _facts(kind: dict[str, Any]) -> dict[str, Any]:
    """Returns what was found on a machine, without the notes: they may have paths and reasons of that machine alone."""
    return {name: value for name, value in kind.items() if name != "notes"}


def _checked(kind: dict[str, Any], box: Box, env: dict[str, str]) -> None:
    """The entrypoint finds the same devices, each with the same address."""
    number = len(kind["devices"])
    expect = devices(*range(number), count=number, accelerator=kind["type"], check="warn")  # one process for all
    end = box.start(expect=expect, env=env)
    assert end.status == 0, end.err
    seen = [device for rank in end.receipt["ranks"] for device in rank["devices"]]
    assert [(each["pci"], each["uuid"]) for each in seen] == [
        (each["pci"] or "", each["uuid"] or "") for each in kind["devices"]
    ]


def test_no_serial_number_is_recorded(box: Box, tmp_path: Path) -> None:
    accelerators(box)
    box.gpus(Gpu(0, "0000:3b:00.0", uuid="GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"))
    done = k8sel(box, "--record", str(tmp_path / "sent"), env={"HABANA_RUNTIME_ERROR": "no firmware"})
    assert done.returncode == 0, done.stderr
    texts = "".join(file.read_text() for file in (tmp_path / "sent").iterdir())
    assert "8932f937" not in texts
    assert SERIAL not in texts
    assert f"{int(SERIAL):x}" not in texts
    assert "GPU-00000000-0000-0000-0000-000000000001" in texts
    assert "no firmware" in texts


def test_the_name_of_the_host_is_replaced() -> None:
    text = json.dumps({"notes": ["trainer-7: lost", "trainer-7.example.org", "trainer-71"]})
    assert recording.hidden(text, "trainer-7.example.org") == {"notes": ["host: lost", "host", "trainer-71"]}


def test_a_recording_is_not_overwritten(box: Box, tmp_path: Path) -> None:
    workstation(box)
    sent = tmp_path / "sent"
    assert k8sel(box, "--record", str(sent), env={}).returncode == 0
    before = (sent / "machine.json").read_text()
    done = k8sel(box, "--record", str(sent), env={})
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{sent}/machine.json exists already, and nothing was written: name another folder" in done.stderr
    assert (sent / "machine.json").read_text() == before


def test_a_folder_that_cannot_be_made_is_named(box: Box) -> None:
    done = k8sel(box, "--record", "/proc/nothing", env={})
    assert done.returncode == 1
    assert "the recording cannot be written: /proc/nothing: " in done.stderr
    assert uuid(0) not in done.stdout

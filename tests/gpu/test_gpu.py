"""The check, the mask and `k8sel run` on real GPUs, against nvidia-smi and the driver itself: `make gpu`."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from entrypoint import rooted
from matrix.doors import TORCHRUN

from gpu.conftest import Gpus
from gpu.record import record
from k8sel.entrypoint.checks.product import label

pytestmark = pytest.mark.gpu

SEES = str(Path(__file__).parent / "cuda_devices.py")
WAYS = ["libcuda", *(["torch"] if importlib.util.find_spec("torch") else [])]


def seen(gpus: Gpus, by: str, **variables: str) -> list[str]:
    """The UUIDs that a program behind the entrypoint sees."""
    done = gpus.start(sys.executable, SEES, by, **variables)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)
    return found


def test_the_devices_are_those_that_nvidia_smi_names(gpus: Gpus) -> None:
    done = gpus.plain(sys.executable, *rooted.K8SEL, "devices", "--type", "cuda", "-o", "json")
    (cuda,) = json.loads(done.stdout)["types"]
    assert (cuda["how"], cuda["driver"], cuda["notes"]) == ("NVML", gpus.cards[0].driver, [])
    found = [(device["uuid"], device["pci"], device["name"]) for device in cuda["devices"]]
    assert found == [(card.uuid, card.pci, card.name) for card in gpus.cards]
    for device, card in zip(cuda["devices"], gpus.cards, strict=True):
        assert abs(device["memory"] / 2**20 - card.memory) <= 1


@pytest.mark.parametrize("by", WAYS)
def test_a_program_sees_each_device_alone(by: str, gpus: Gpus) -> None:
    for number in range(len(gpus.cards)):
        assert seen(gpus, by, K8SEL_ACCELERATOR="cuda", K8SEL_DEVICES=str(number)) == gpus.uuids([number])


@pytest.mark.parametrize("by", WAYS)
def test_a_program_sees_them_in_the_files_order(by: str, gpus: Gpus) -> None:
    numbers = list(range(len(gpus.cards)))[::-1]
    count = str(len(numbers))
    named = ",".join(map(str, numbers))
    assert seen(gpus, by, K8SEL_ACCELERATOR="cuda", K8SEL_COUNT=count) == gpus.uuids(numbers[::-1])
    assert seen(gpus, by, K8SEL_ACCELERATOR="cuda", K8SEL_COUNT=count, K8SEL_DEVICES=named) == gpus.uuids(numbers)


@pytest.mark.parametrize("by", WAYS)
def test_a_job_without_devices_sees_none(by: str, gpus: Gpus) -> None:
    assert seen(gpus, by, K8SEL_ACCELERATOR="cuda", K8SEL_DEVICES="", K8SEL_COUNT="0") == []
    assert seen(gpus, by, K8SEL_ACCELERATOR="cpu") == []


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("K8SEL_COUNT={more}", "{more} cuda devices expected, {count} found"),
        ("K8SEL_PRODUCT=NVIDIA-RIVA-TNT2", "product NVIDIA-RIVA-TNT2 expected, {product} found by NVML"),
        ("K8SEL_MEMORY=900Ti", "memory of 900Ti or more expected on each device"),
        ("CUDA_VISIBLE_DEVICES=7000", "CUDA_VISIBLE_DEVICES=7000 is set, "),
    ],
)
def test_what_is_wrong_stops_it(variable: str, message: str, gpus: Gpus) -> None:
    count = len(gpus.cards)
    facts = {"count": count, "more": count + 1, "product": label(gpus.cards[0].name)}
    name, value = variable.format(**facts).split("=")
    done = gpus.start("echo", "started", **{"K8SEL_ACCELERATOR": "cuda", name: value})
    assert (done.returncode, done.stdout) == (78, "")
    assert message.format(**facts) in done.stderr


def test_what_is_right_starts(gpus: Gpus) -> None:
    """The product in the label's words, and as much memory as it has but for a half of a GiB."""
    memory = f"{min(card.memory for card in gpus.cards) - 512}Mi"
    products = ",".join({label(card.name) for card in gpus.cards})
    right = {"K8SEL_COUNT": str(len(gpus.cards)), "K8SEL_PRODUCT": products, "K8SEL_MEMORY": memory}
    done = gpus.start("echo", "started", K8SEL_ACCELERATOR="cuda", **right)
    assert (done.returncode, done.stdout) == (0, "started\n"), done.stderr


SELECTIONS: dict[str, dict[str, Any]] = {  # the last two need a second GPU
    "none": {"devices": []},
    "count": {"count": 1},
    "subset": {"devices": [1]},
    "order": {"devices": [1, 0]},
}


@pytest.mark.parametrize("isolation", ["node", "process"])
def test_k8sel_run(isolation: str, gpus: Gpus, tmp_path: Path) -> None:
    """The door `run` of docs/selection.md: job files, and what the driver gives to each process."""
    for selection in list(SELECTIONS)[: 2 if len(gpus.cards) == 1 else None]:
        accelerator = {**SELECTIONS[selection], "isolation": isolation}
        named = accelerator.get("devices", list(range(accelerator.get("count", 0))))
        apart = isolation == "process" and len(named) > 0
        expected = [[number] for number in named] if apart else [named] * max(1, len(named))
        assert _run(gpus, accelerator, len(expected), tmp_path) == [gpus.uuids(numbers) for numbers in expected]
        record(f"cuda run {isolation} {selection}", named, gpus.cards)


def _run(gpus: Gpus, accelerator: dict[str, Any], processes: int, folder: Path) -> list[list[str]]:
    """Returns the devices that each process sees, rank by rank."""
    _program(folder / "torchrun", TORCHRUN)
    # The installed entrypoint comes first, but for test_selftest.py: on a machine that is laid out, it refuses to look.
    place = folder if "K8SEL_ROOT" in os.environ else folder / "else"
    _program(place / "k8sel-entrypoint", f"#!{sys.executable}\n{ENTRYPOINT}")
    spec = {
        "image": "none",
        "command": [sys.executable, SEES],
        "launcher": "torchrun",
        "processesPerNode": processes,
        "accelerator": {"type": "cuda", **accelerator},
    }
    file = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": "gpu"}, "spec": spec}
    (folder / "job.yaml").write_text(json.dumps(file))
    path = f"{folder}:{Path(sys.executable).parent}:/usr/bin:/bin:{folder / 'else'}"
    done = gpus.plain(sys.executable, *rooted.K8SEL, "run", "-q", str(folder / "job.yaml"), env={"PATH": path})
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


# For a machine where k8sel was not installed, but only put on Python's path.
ENTRYPOINT = """
import os
from k8sel.entrypoint.__main__ import main
main(root=os.environ.get("K8SEL_ROOT", ""))
"""


def test_how_long_a_start_takes(gpus: Gpus, capsys: pytest.CaptureFixture[str]) -> None:
    """Printed, not judged: it is the driver's time, most of it. That it ends in time is judged."""

    alone, checked = [], []
    for _ in range(5):
        alone.append(_seconds(lambda: gpus.plain(sys.executable, "-I", "-S", "-c", "pass")))
        checked.append(_seconds(lambda: gpus.start("true", K8SEL_ACCELERATOR="cuda")))
    whole, bare = (f"{1000 * statistics.median(times):.0f} ms" for times in (checked, alone))
    with capsys.disabled():
        print(
            f"\n{len(gpus.cards)} x {gpus.cards[0].name}: a checked start {whole}, Python alone {bare} (medians of 5)"
        )
    assert max(checked) < 10


def _seconds(start: Callable[[], subprocess.CompletedProcess[str]]) -> float:
    before = time.perf_counter()
    assert start().returncode == 0
    return time.perf_counter() - before

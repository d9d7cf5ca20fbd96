"""Random environments, hostile machines, broken drivers: the command starts, or it is said why not. In time, always."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from entrypoint.machines import Box, devices, left_over
from k8sel.entrypoint import __main__ as entrypoint
from k8sel.entrypoint import launch, report, tables
from k8sel.entrypoint.discovery import cuda
from k8sel.entrypoint.report import Stop

# The fork is in a process of one thread but for pytest-xdist's.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")

A = "0000:1a:00.0"
GI = 2**30
OWN_ERROR = "internal error: "
SECONDS = 10.0  # from the start to the command or the message, whatever the driver does
LIBRARY = "lib/libnvidia-ml.so.1"
FILES = (
    *(f"dev/{name}" for name in ("nvidia0", "nvidia3", "nvidia7", "nvidiactl", "kfd", "dxg", "davinci3", "neuron0")),
    *("dev/dri/renderD128", "dev/dri/renderD129", "dev/dri/card0", "dev/accel/accel0", "dev/accel/accel9", "dev/shm"),
    *("dev/infiniband/uverbs0", "dev/nvidia-caps/nvidia-cap3", "dev/cambricon_dev0"),
    *(f"proc/driver/nvidia/gpus/{bus}/information" for bus in (A, "x")),
    *("proc/driver/nvidia/version", "proc/driver/nvidia-caps/mig-minors", "proc/self/cgroup", "lib/libcuda.so.1"),
    *("proc/self/limits", "proc/self/status", "proc/driver/nvidia/capabilities/gpu0/mig/gi1/ci0/access"),
    *(f"sys/class/drm/renderD{minor}/device/{name}" for minor in (128, 129) for name in ("vendor", "uevent", "device")),
    *(f"sys/class/kfd/kfd/topology/nodes/{node}/{name}" for node in (0, 1, "x") for name in ("gpu_id", "properties")),
    "sys/class/kfd/kfd/topology/nodes/1/mem_banks/0/properties",
    *(f"sys/class/accel/accel{number}/device/{name}" for number in (0, 9) for name in ("module_id", "pci_addr")),
    *(f"sys/fs/cgroup/{name}" for name in ("cpu.max", "cpuset.cpus.effective", "cpu/cpu.cfs_quota_us")),
    *(f"sys/bus/pci/devices/{A}/numa_node", "sys/devices/system/node/node0"),
    *(f"sys/devices/system/cpu/{name}" for name in ("online", "smt/active", "cpu0/topology/thread_siblings_list")),
)
FOLDER, LOOP, FIFO, NOTHING = "a folder", "a link to itself", "a FIFO", "a link to nothing"  # in a file's place
TEXTS = [
    b"0",
    b"1",
    b"-1",
    b"0x8086",
    b"9" * 5000,
    "²".encode(),
    b"0::/../x\n4:cpu:/\n",
    b"max 100000",
    b"50000 100000",
    b"0-",
    b"5-3,\n",
    b"drm_render_minor 128\n",
    b"drm_render_minor 129\n",
    b"heap_type 1\nsize_in_bytes 68719476736\n",
    b"PCI_SLOT_NAME=0000:1a:00.0\n",
    b"PCI_SLOT_NAME=zz:1a:00.0\n",
    b"Device Minor: 0\nBus Location: 0000:1a:00.0\nModel: \xff\n",
    b"Device Minor: 7\nBus Location: \n",
    b"gpu0/gi1/ci0/access 3\ngpu0/gi1/access\n\n4\n",
    b"Max open files  1024  many files\nMax locked memory  -1  x\nMax open files\n",
    b"Max open files            1024                 1024                 files\n",
    b"CapEff:\t0000zz\nCapEff:\n",
]
OURS = {"OMP_NUM_THREADS", "CCL_WORKER_COUNT", "CCL_ROOT", "I_MPI_ROOT", "RANK"}
NAMES = sorted({name for row in tables.accelerators().values() for name in row.ownedEnv} | OURS)
RANKS = sorted({name for row in tables.mpi().values() for name in row["rank"].values()} | {"LOCAL_RANK", "WORLD_SIZE"})
TEXT = some.text(some.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
VALUES = TEXT | some.sampled_from(["", "0", "1", "0,1", "-1", "2", "²", "/nowhere:"])
EXPECTATIONS = some.fixed_dictionaries(
    {
        "accelerator": some.sampled_from(sorted(tables.accelerators())) | some.just("cuda"),
        "devices": some.lists(some.integers(0, 9), max_size=4) | some.just([0]),
    },
    optional={
        "count": some.integers(0, 4),
        "order": some.sampled_from(["pci", "fastest"]),
        "product": some.lists(TEXT, max_size=2) | some.just(["NVIDIA-H100-80GB-HBM3"]),
        "memory": some.sampled_from([1, 64 * GI, 80 * GI, 81 * GI, 2**63 - 1]),
        "sharedMemory": some.sampled_from([1, GI, 2**62]),
        "isolation": some.sampled_from(["node", "process"]),
        "launcher": some.sampled_from(["python", "torchrun", "mpirun"]),
        "nodes": some.sampled_from([1, 9]),
        "processesPerNode": some.integers(1, 5),
        "threadsPerProcess": some.none() | some.integers(1, 9),
        "check": some.sampled_from(["enforce", "warn", "off"]),
        "job": TEXT,
        "backend": some.sampled_from([*sorted(tables.backends()), "x"]),
        "mpi": some.sampled_from([*sorted(tables.mpi()), "", "x"]),
    },
)
FUNCTIONS = (
    "nvmlInit_v2",
    "nvmlDeviceGetCount_v2",
    "nvmlDeviceGetHandleByIndex_v2",
    "nvmlDeviceGetPciInfo_v3",
    "nvmlDeviceGetMigMode",
    "nvmlDeviceGetMaxMigDeviceCount",
    "nvmlDeviceGetMigDeviceHandleByIndex",
    "nvmlDeviceGetUUID",
    "nvmlDeviceGetName",
    "nvmlDeviceGetMemoryInfo",
    "nvmlSystemGetDriverVersion",
    "nvmlSystemGetCudaDriverVersion_v2",
)
OPTIONAL = FUNCTIONS[-3:]  # what they say is not needed to know the devices
ONLY_PARTS = FUNCTIONS[5:7]  # called where a GPU is partitioned
CODES = (*range(1, 29), 999)  # nvmlReturn_t: NVIDIA/go-nvml gen/nvml/nvml.h
FAULTS = some.lists(
    some.tuples(some.sampled_from(FUNCTIONS), some.sampled_from([*map(str, CODES), "crash", "hang"])), max_size=2
)


class Started(Exception):
    """The command would have been started, in ``environ``."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.environ = environ


@dataclass
class Seen:
    """The output and the exit status of one start."""

    lines: list[str] = field(default_factory=list)
    receipt: dict[str, Any] = field(default_factory=dict)
    report: dict[str, Any] = field(default_factory=dict)
    stop: Stop | None = None
    environ: dict[str, str] | None = None  # of the command that was started
    seconds: float = 0.0

    @property
    def text(self) -> str:
        return "\n".join([*self.lines, *(self.stop.messages if self.stop else ())])

    @property
    def found(self) -> int:
        """The number of devices in the summary."""
        numbers = re.findall(r" device \d+ of (\d+)", self.text)
        return int(numbers[0])


def become(program: str, command: list[str], environ: dict[str, str]) -> NoReturn:
    raise Started(environ)


def run(mode: str, environ: dict[str, str], root: Path, driver: Mapping[str, str]) -> Seen:
    """One start in this process: what the driver's fake is told has to be in the real environment."""
    seen = Seen()
    begun = time.monotonic()
    with (
        mock.patch.object(launch, "become", become),
        mock.patch.object(cuda, "NVML_SECONDS", 0.25 if "hang" in driver["FAKE_NVML_FAULT"] else 7.0),
        mock.patch.object(report, "say", seen.lines.append),
        mock.patch.object(report, "receipt", seen.receipt.update),
        mock.patch.object(report, "node_report", seen.report.update),
        mock.patch.dict(os.environ, driver),
    ):
        try:
            entrypoint.run([mode, "true"], environ, str(root))
        except Stop as stop:
            seen.stop = stop
        except Started as started:
            seen.environ = started.environ
    seen.seconds = time.monotonic() - begun
    return seen


def lay_out(root: Path, files: Mapping[str, bytes | str]) -> None:
    for path, content in files.items():
        file = root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            file.write_bytes(content)
        elif content == FIFO:
            os.mkfifo(file)
        elif content == FOLDER:
            file.mkdir()
        else:
            file.symlink_to(file if content == LOOP else "/nowhere/at/all")


@some.composite
def machines(draw: some.DrawFn) -> dict[str, bytes | str]:
    """Trees of files. What is below /dev is the image's and the runtime's: anything may be there."""
    texts = some.binary(max_size=20) | some.sampled_from(TEXTS)
    paths = draw(some.sets(some.sampled_from(FILES), max_size=20))
    others = {path: [FOLDER, LOOP, NOTHING, *([FIFO] if path.startswith("dev/") else [])] for path in paths}
    return {path: draw(texts | texts | some.sampled_from(others[path])) for path in sorted(paths)}


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow])
@given(
    files=machines(),
    variables=some.dictionaries(
        some.sampled_from([*NAMES, *RANKS, "LD_LIBRARY_PATH", "PYTHONPATH"]), VALUES, max_size=8
    ),
    expectation=EXPECTATIONS,
    override=some.sampled_from(["", "", "", "enforce", "warn", "off", "maybe"]),
    mode=some.sampled_from(["node", "rank", "check"]),
    driver=some.none() | FAULTS,
    parts=some.sampled_from(["", "", "3g.40gb,,1g.10gb;;;1g.10gb"]),
)
def test_the_command_or_a_message(
    files: dict[str, bytes | str],
    variables: dict[str, str],
    expectation: dict[str, Any],
    override: str,
    mode: str,
    driver: list[tuple[str, str]] | None,
    parts: str,
    fake_nvml: Path,
) -> None:
    """Any environment, machine and driver: a message and status 78, or the command, and what of it is not known."""
    with tempfile.TemporaryDirectory() as root:
        lay_out(Path(root), files)
        if driver is not None:
            (Path(root) / "lib").mkdir(exist_ok=True)
            (Path(root) / LIBRARY).symlink_to(fake_nvml)
        environ = {
            "PATH": "/bin",
            **variables,
            "K8SEL_EXPECT": json.dumps({"version": 1, **expectation}),
            "K8SEL_NODE": "box",
            "K8SEL_CHECK": override,
        }
        fault = ",".join(f"{function}={what}" for function, what in driver or ())
        told = {"FAKE_NVML_DEV": f"{root}/dev", "FAKE_NVML_FAULT": fault, "FAKE_NVML_MIG": parts}
        seen = run(mode, environ, Path(root), told)
    judge(seen, mode, {**expectation, "check": override or expectation.get("check", "enforce")})


def judge(seen: Seen, mode: str, expectation: dict[str, Any]) -> None:
    """Asserts the laws that hold for every start."""
    assert seen.seconds < SECONDS
    assert OWN_ERROR not in seen.text + json.dumps(seen.report)
    ends = [seen.stop is not None, seen.environ is not None, bool(seen.report)]
    assert ends.count(True) == 1
    if seen.stop:
        assert seen.stop.status == 78
        assert seen.stop.messages
        assert all(message.strip() for message in seen.stop.messages)
    if seen.report:
        assert mode == "check"
        assert seen.report["ok"] == (not seen.report["problems"])
    if seen.environ is not None:
        assert mode != "check"
        assert all("\0" not in text for item in seen.environ.items() for text in item)
        not_in_silence(seen, expectation)


def not_in_silence(seen: Seen, expectation: dict[str, Any]) -> None:
    """A start says what it was not able to compare, and what it compared is as the job wants it."""
    row, unchecked = tables.accelerators()[expectation["accelerator"]], seen.receipt["notChecked"]
    said = f"; not checked: {', '.join(unchecked)}"
    assert (said in seen.text) == bool(unchecked)
    if expectation["check"] != "enforce":
        return
    if expectation.get("sharedMemory", 0) > GI:
        assert "sharedMemory" in unchecked
    if not row.maskEnv or not expectation["devices"]:
        return
    if "devices" in unchecked:
        assert not seen.receipt["how"]
        return
    assert seen.receipt["how"]
    assert expectation.get("count") in (None, seen.found)
    assert max(expectation["devices"]) < seen.found
    everything = expectation["devices"] == list(range(seen.found))  # then nothing has to be hidden or put in order
    assert everything or row.maskEnv in (seen.environ or {})
    if "memory" in expectation and "memory" not in unchecked:
        for rank in seen.receipt["ranks"]:
            assert all(device["memory"] >= expectation["memory"] for device in rank["devices"] if device["memory"])


@pytest.fixture(scope="module")
def driver_root(tmp_path_factory: pytest.TempPathFactory, fake_nvml: Path) -> Path:
    """A healthy machine of three GPUs, of which the first (in PCI order, the third minor) is partitioned."""
    root = tmp_path_factory.mktemp("driver")
    lay_out(root, {f"dev/nvidia{minor}": b"" for minor in range(3)})
    lay_out(root, {"lib/libcuda.so.1": b"", LIBRARY: NOTHING})
    (root / LIBRARY).unlink()
    (root / LIBRARY).symlink_to(fake_nvml)
    return root


def start(root: Path, function: str, what: str, **asked: object) -> Seen:
    expect = {"version": 1, "accelerator": "cuda", "devices": [0], "memory": 1, **asked}
    environ = {"PATH": "/bin", "K8SEL_EXPECT": json.dumps(expect), "K8SEL_NODE": "box"}
    parts = ";;1g.10gb" if function in ONLY_PARTS else ""
    told = {"FAKE_NVML_DEV": f"{root}/dev", "FAKE_NVML_FAULT": f"{function}={what}", "FAKE_NVML_MIG": parts}
    seen = run("node", environ, root, told)
    judge(seen, "node", {**expect, "check": "enforce"})
    return seen


@pytest.mark.parametrize("function", FUNCTIONS)
def test_every_code_from_every_function_of_the_driver(function: str, driver_root: Path) -> None:
    """Asserts that unknown facts are printed and never taken as correct."""
    for code in CODES:
        seen = start(driver_root, function, str(code), count=3)
        if function in OPTIONAL:
            assert seen.environ, (code, seen.text)
            assert ("memory" in seen.receipt["notChecked"]) == (function == "nvmlDeviceGetMemoryInfo")
        elif seen.receipt.get("how") != "NVML":
            assert f"{function}: error {code} (" in seen.text or "are in this container, NVML shows" in seen.text, (
                code,
                seen.text,
            )
    for wrong in ({"count": 9}, {"count": 3, "product": ["NVIDIA-L4"]}, {"count": 3, "memory": 81 * GI}):
        seen = start(driver_root, function, str(CODES[0]), **wrong)
        assert seen.stop or seen.receipt["notChecked"] == ["memory"]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_driver_that_crashes_or_hangs_in_every_function(function: str, driver_root: Path) -> None:
    for what, said in (("crash", "it crashed (SIGABRT)"), ("hang", "no answer in 0.25 s")):
        assert start(driver_root, function, what, count=9).stop
        seen = start(driver_root, function, what, count=3)
        assert f"NVML: {said}" in seen.text


def test_a_hang_in_any_function_ends_at_the_time_limit(nvml_box: Box) -> None:
    """Whole processes, all at once, with the limit as it is; how long one takes alone, test_machines measures."""
    words = [sys.executable, "-I", "-S", str(nvml_box.entrypoint / "entrypoint.pyz"), "--", "true"]
    running = {}
    for function in FUNCTIONS:
        told = {"FAKE_NVML_FAULT": f"{function}=hang", "FAKE_NVML_MIG": ";;1g.10gb"}
        log = {"K8SEL_TERMINATION_LOG": str(nvml_box.root / function)}
        environ = nvml_box.environ(devices(0, count=9), {**told, **log})
        running[function] = subprocess.Popen(words, env=environ, stderr=subprocess.DEVNULL)
    for function, process in running.items():
        assert process.wait(2 * SECONDS) == 78
        assert "NVML: no answer in 7 s" in (nvml_box.root / function).read_text(), function
    assert not left_over([str(nvml_box.entrypoint)])

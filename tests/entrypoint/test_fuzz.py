"""Random environments, hostile machines: the entrypoint starts the command, or says why not. Nothing else, ever."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any, NoReturn
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from k8sel.entrypoint import __main__ as entrypoint
from k8sel.entrypoint import launch, report, tables
from k8sel.entrypoint.stop import Stop

# The fork is in a process of one thread but for pytest-xdist's.
pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")

A = "0000:1a:00.0"
OWN_ERROR = "error in the entrypoint itself"
FILES = (
    *(f"dev/{name}" for name in ("nvidia0", "nvidia7", "nvidiactl", "kfd", "dxg", "davinci3", "cambricon_dev0")),
    *("dev/dri/renderD128", "dev/dri/renderD129", "dev/dri/card0", "dev/accel/accel0", "dev/accel/accel9"),
    *(f"proc/driver/nvidia/gpus/{bus}/information" for bus in (A, "x")),
    *("proc/driver/nvidia/version", "proc/self/cgroup", "lib/libnvidia-ml.so.1"),
    *(f"sys/class/drm/renderD{minor}/device/{name}" for minor in (128, 129) for name in ("vendor", "uevent", "device")),
    *(f"sys/class/kfd/kfd/topology/nodes/{node}/{name}" for node in (0, 1, "x") for name in ("gpu_id", "properties")),
    *(f"sys/class/accel/accel{number}/device/{name}" for number in (0, 9) for name in ("module_id", "pci_addr")),
    *(f"sys/fs/cgroup/{name}" for name in ("cpu.max", "cpuset.cpus.effective", "cpu/cpu.cfs_quota_us")),
    *(f"sys/bus/pci/devices/{A}/numa_node", "sys/devices/system/node/node0"),
)
CONTENTS = some.binary(max_size=20) | some.sampled_from(
    [
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
        b"PCI_SLOT_NAME=0000:1a:00.0\n",
        b"PCI_SLOT_NAME=zz:1a:00.0\n",
        b"Device Minor: 0\nBus Location: 0000:1a:00.0\nModel: \xff\n",
        b"Device Minor: 7\nBus Location: \n",
    ]
)
NAMES = sorted({name for row in tables.accelerators().values() for name in row.ownedEnv} | {"OMP_NUM_THREADS", "RANK"})
RANKS = sorted({name for row in tables.mpi().values() for name in row["rank"].values()} | {"LOCAL_RANK", "WORLD_SIZE"})
TEXT = some.text(some.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
VALUES = TEXT | some.sampled_from(["", "0", "1", "0,1", "-1", "2", "²"])
EXPECTATIONS = some.fixed_dictionaries(
    {
        "accelerator": some.sampled_from(sorted(tables.accelerators())),
        "devices": some.lists(some.integers(0, 9), max_size=4),
    },
    optional={
        "count": some.integers(0, 4),
        "order": some.sampled_from(["pci", "fastest"]),
        "product": some.lists(TEXT, max_size=2),
        "isolation": some.sampled_from(["node", "process"]),
        "launcher": some.sampled_from(["python", "torchrun", "mpirun"]),
        "processesPerNode": some.integers(1, 5),
        "threadsPerProcess": some.none() | some.integers(1, 9),
        "check": some.sampled_from(["enforce", "warn", "off"]),
        "job": TEXT,
    },
)


class Started(Exception):
    """The command would have been started, in ``environ``."""

    def __init__(self, environ: dict[str, str]) -> None:
        self.environ = environ


def become(program: str, command: list[str], environ: dict[str, str]) -> NoReturn:
    raise Started(environ)


@settings(deadline=10_000, max_examples=150)
@given(
    files=some.dictionaries(some.sampled_from(FILES), CONTENTS, max_size=20),
    variables=some.dictionaries(some.sampled_from(NAMES + RANKS), VALUES, max_size=8),
    expectation=EXPECTATIONS,
    mode=some.sampled_from(["node", "rank", "check"]),
)
def test_the_command_or_a_message(
    files: dict[str, bytes], variables: dict[str, str], expectation: dict[str, Any], mode: str
) -> None:
    row = tables.accelerators()[expectation["accelerator"]]
    with tempfile.TemporaryDirectory() as root:
        for path, content in files.items():
            file = Path(root, path)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        expect = json.dumps({"version": 1, **expectation})
        environ = {"PATH": "/bin", **variables, "K8SEL_ROOT": root, "K8SEL_EXPECT": expect, "K8SEL_NODE": "box"}
        end = run(mode, environ)
    if isinstance(end, Stop):
        assert end.messages
        assert all(end.messages)
        assert end.status == 78
    elif isinstance(end, Started):
        assert mode != "check"
        assert all("\0" not in text for item in end.environ.items() for text in item)
        if row.maskEnv and expectation["devices"] and expectation.get("check", "enforce") == "enforce":
            assert row.maskEnv in end.environ
    else:
        assert (mode, OWN_ERROR in str(end)) == ("check", False)


def run(mode: str, environ: dict[str, str]) -> Stop | Started | dict[str, Any]:
    """How it ended; the report that it printed."""
    with mock.patch.object(launch, "become", become), mock.patch.object(report, "node_report") as printed:
        try:
            entrypoint.run([mode, "true"], environ)
        except (Stop, Started) as end:
            return end
    found: dict[str, Any] = printed.call_args.args[0]
    return found

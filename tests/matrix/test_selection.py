"""The devices that the file names are the devices that the process sees: every row of the table, at every door.

What is expected is written here by hand, from what the job file's words mean and what the vendors' drivers do.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from k8sel.facts.accelerators import ROWS
from matrix import cells, doors
from matrix.hosts import DEVICES
from matrix.vendors import HOSTS, VENDORS, Vendor

HIDDEN = "ASCEND_VISIBLE_DEVICES=void CUDA_VISIBLE_DEVICES= HIP_VISIBLE_DEVICES=-1 NVIDIA_VISIBLE_DEVICES=void"
HOST = " NVIDIA_VISIBLE_DEVICES=0,2"
PCI, XPU_PCI = "CUDA_DEVICE_ORDER=PCI_BUS_ID CUDA_VISIBLE_DEVICES=", "ZE_ENABLE_PCI_ID_DEVICE_ORDER=1"

# The machine's devices that the words name. A device plugin hands over the machine's last ones, two or three of four.
NAMED = {
    "kubernetes": {"count": [2, 3], "subset": [1, 3], "order": [3, 1]},
    "host": {"count": [0, 1], "subset": [0, 2], "order": [2, 0]},
    "docker": {"count": [0, 1], "subset": [0, 2], "order": [2, 0]},
    "run": {"count": [0, 1], "subset": [0, 2], "order": [2, 0]},
}

# As it is written for `devices: [2, 0]`: for one process that sees both, and for two that see one each; None: refused.
WRITTEN: dict[str, dict[str, tuple[str | None, list[str] | None]]] = {
    "cuda": {
        "kubernetes": (f"{PCI}GPU-..3,GPU-..1", [f"{PCI}GPU-..3", f"{PCI}GPU-..1"]),
        "host": (f"{PCI}GPU-..2,GPU-..0{HOST}", [f"{PCI}GPU-..2{HOST}", f"{PCI}GPU-..0{HOST}"]),
        "docker": (f"{PCI}GPU-..2,GPU-..0", [f"{PCI}GPU-..2", f"{PCI}GPU-..0"]),
        "run": (f"{PCI}GPU-..2,GPU-..0", [f"{PCI}GPU-..2", f"{PCI}GPU-..0"]),
    },
    "xpu": {
        "kubernetes": (None, [f"ZE_AFFINITY_MASK=2 {XPU_PCI}", f"ZE_AFFINITY_MASK=0 {XPU_PCI}"]),
        "host": (None, None),
        "docker": (None, [f"ZE_AFFINITY_MASK=1 {XPU_PCI}", f"ZE_AFFINITY_MASK=0 {XPU_PCI}"]),
        "run": (None, [f"ZE_AFFINITY_MASK=2 {XPU_PCI}", f"ZE_AFFINITY_MASK=0 {XPU_PCI}"]),
    },
    "hpu": {  # the machine's modules are 4 to 7; its runtime calls devices 0 and 2 what their nodes are called
        "kubernetes": ("HABANA_VISIBLE_MODULES=7,5", None),
        "host": ("HABANA_VISIBLE_MODULES=6,4", None),
        "docker": ("HABANA_VISIBLE_DEVICES=2,3 HABANA_VISIBLE_MODULES=6,4", None),
        "run": ("HABANA_VISIBLE_MODULES=6,4", None),
    },
    "rocm": {  # ROCm lists the machine's devices as 1, 3, 0, 2, and in a container those that are there
        "kubernetes": ("HIP_VISIBLE_DEVICES=1,0", ["HIP_VISIBLE_DEVICES=1", "HIP_VISIBLE_DEVICES=0"]),
        "host": (
            "AMD_VISIBLE_DEVICES=0,2 HIP_VISIBLE_DEVICES=1,0",
            [f"AMD_VISIBLE_DEVICES=0,2 HIP_VISIBLE_DEVICES={n}" for n in (1, 0)],
        ),
        "docker": ("HIP_VISIBLE_DEVICES=1,0", ["HIP_VISIBLE_DEVICES=1", "HIP_VISIBLE_DEVICES=0"]),
        "run": ("HIP_VISIBLE_DEVICES=3,2", ["HIP_VISIBLE_DEVICES=3", "HIP_VISIBLE_DEVICES=2"]),
    },
    "neuron": dict.fromkeys(doors.DOORS, (None, None)),  # test_units.py has it, with processes of mpirun
    "npu": {  # its runtime is told the machine's numbers, and its nodes keep them
        "kubernetes": (None, ["ASCEND_RT_VISIBLE_DEVICES=2", "ASCEND_RT_VISIBLE_DEVICES=0"]),
        "host": (None, [f"ASCEND_RT_VISIBLE_DEVICES={n} ASCEND_VISIBLE_DEVICES=0,2" for n in (1, 0)]),
        "docker": (None, [f"ASCEND_RT_VISIBLE_DEVICES={n} ASCEND_VISIBLE_DEVICES=0,2" for n in (1, 0)]),
        "run": (None, ["ASCEND_RT_VISIBLE_DEVICES=2", "ASCEND_RT_VISIBLE_DEVICES=0"]),
    },
}


@pytest.mark.parametrize("door", doors.DOORS)
@pytest.mark.parametrize("row", HOSTS)
def test_the_process_sees_the_devices_that_the_file_names(row: str, door: str, image: Path) -> None:
    found = cells.of(row, door, image)
    for name, cell in found.items():
        isolation, selection = name.split()[2:]
        reasons = _refusals(row, door, isolation, selection)
        assert cell.get("refused", "") == "; ".join(reasons), name
        stopped = "" if reasons else _stopped(row, door, isolation, selection)
        assert cell.get("stopped", "") == stopped, name
        if not reasons and not stopped:
            _assert_shown(name, cell)
    one, two = (found[f"{row} {door} {isolation} order"].get("written") for isolation in cells.ISOLATIONS)
    if row in WRITTEN:
        together, apart = WRITTEN[row][door]
        assert (one, two) == ([together] if together else None, apart)
    recorded = {name: cell for name, cell in cells.recorded().items() if name.startswith(f"{row} {door} ")}
    assert found == recorded, "docs/selection.md says something else: PYTHONPATH=tests python -m matrix.update"


def _assert_shown(name: str, cell: dict[str, Any]) -> None:
    row, door, isolation, selection = name.split()
    each = {"node": 0, "process": 1}[isolation] if isolation in cells.ISOLATIONS else VENDORS[row].ranks
    processes = 2 * each or 1
    if selection == "none":
        assert cell["written"] == [HIDDEN] * processes
        left = _not_hidden(VENDORS[row]) if door == "run" else []
        assert [sorted(shown) for shown in cell["shown"]] == [left] * processes, name
    else:
        named = NAMED[door][selection]
        assert cell["shown"] == ([[device] for device in named for _ in range(each)] or [named]), name
        assert cell["how"], "nobody looked"


def _not_hidden(vendor: Vendor) -> list[int]:
    """The devices that stay in sight on a machine that no container narrows: no value of their mask means none."""
    masks = {word.partition("=")[0] for word in HIDDEN.split()}
    return [] if vendor.driver.mask in masks else list(DEVICES[: len(vendor.host.nodes)])


def _refusals(row: str, door: str, isolation: str, selection: str) -> list[str]:
    """Every reason that the job file has to be refused there, in the file's order."""
    if row == "mps":
        return _of_the_mac(door, isolation, selection)
    named, alone = selection != "none", isolation == "process"
    if row == "cpu":
        asked = {"count": "requests 2 devices", "subset": "lists [0, 2]", "order": "lists [2, 0]"}
        return [f"type cpu has no devices, but the file {asked[selection]}"] if named else []
    vendor = VENDORS[row]
    unordered = f"{vendor.driver.mask} cannot order devices: the processes would see [0, 2]"
    reasons = {
        vendor.not_by_rank: isolation == cells.SEVERAL and named,
        vendor.not_in_docker: door == "docker" and named,
        unordered: selection == "order" and not alone and not vendor.driver.ordered,
        vendor.gap: selection in ("subset", "order") and isolation == "node" and door in ("kubernetes", "run"),
        vendor.not_others.format("0, 2" if selection == "subset" else "2, 0"): isolation == cells.SEVERAL
        and selection in ("subset", "order")
        and door in ("kubernetes", "run"),
        vendor.not_by_process: alone and named,
        vendor.not_by_the_host: door == "host",
    }
    return [reason for reason, holds in reasons.items() if reason and holds]


def _stopped(row: str, door: str, isolation: str, selection: str) -> str:
    """Why the entrypoint stops there: on Kubernetes a container has three devices if two of them are named."""
    held = {"kubernetes": 3 if selection == "subset" else 2, "run": 4}.get(door, 2)
    part = isolation == "node" and selection != "none" and held > 2
    return VENDORS[row].part.format(held, held) if part else ""


def _of_the_mac(door: str, isolation: str, selection: str) -> list[str]:
    """In the order in which the file says what they are about: processes, type, count."""
    contained = ["Apple GPU (MPS) cannot be used in a container"] if door != "run" else []
    if selection == "none":
        both = "a machine has one Apple GPU (MPS), and 2 processes would share it"
        return [*([both] if isolation == "process" else []), *contained]
    one = "a machine has one Apple GPU (MPS)"
    return [*contained, one] if selection == "count" else [one, *contained]


def test_every_row_of_the_table_has_a_machine() -> None:
    assert set(HOSTS) == set(ROWS)


def test_real_hardware_is_what_a_run_has_recorded() -> None:
    for run in json.loads((cells.DATA.parent / "hardware.json").read_text()):
        assert set(run) == {"cell", "devices", "machine", "driver", "k8sel", "date"}
        assert run["cell"] in cells.recorded()

"""Receipts as starts write them, and logs with them."""

from __future__ import annotations

import json
from typing import Any

MARK = "k8sel-receipt: "


def device(number: int, **more: object) -> dict[str, Any]:
    """A device of a node: its UUID, address and NUMA node follow from its number."""
    return {"uuid": f"GPU-0000-{number:08d}", "pci": f"0000:{number:02x}:00.0", "numa": number // 4, **more}


def receipt(node: str, *devices: int, rank: str | None = None, **more: object) -> dict[str, Any]:
    """Returns the output of a node that starts a process for each of ``devices``."""
    mask = ",".join(f"GPU-0000-{number:08d}" for number in devices)
    return {
        "accelerator": "cuda",
        "driver": "550.54.15",
        "how": "NVML",
        "job": node.partition("-")[0],
        "jobFile": "aa",
        "mask": {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": mask},
        "node": node,
        "numaNodes": 2,
        "python": "3.11.7",
        "libraries": {"torch": "2.6.0"},
        "rank": rank,
        "ranks": [
            {"localRank": local, "positions": [local], "devices": [device(number)]}
            for local, number in enumerate(devices)
        ],
        "threads": "4",
        **more,
    }


def own(node: str, rank: int, local: int, number: int, **more: object) -> dict[str, Any]:
    """Returns the output of one process that mpirun starts."""
    ranks = [{"localRank": local, "positions": [local], "devices": [device(number)]}]
    return {**receipt(node, number, rank=str(rank)), "ranks": ranks, **more}


def line(fields: dict[str, Any], before: str = "") -> str:
    return before + MARK + json.dumps(fields, separators=(",", ":"), sort_keys=True)


def two_nodes(job: str = "first", **more: object) -> list[dict[str, Any]]:
    """Two nodes of two processes each."""
    return [receipt(f"{job}-master-0", 3, 1, rank="0", **more), receipt(f"{job}-worker-0", 0, 2, rank="1", **more)]


def log(*receipts: dict[str, Any]) -> str:
    """Returns the output of `k8sel logs` for nodes that wrote these lines."""
    lines = [
        text
        for fields in receipts
        for text in (f"{fields['node']} | k8sel: node {fields['node']}: ok", line(fields, f"{fields['node']} | "))
    ]
    return "\n".join([*lines, "first-master-0 | step 1 loss 0.5", ""])

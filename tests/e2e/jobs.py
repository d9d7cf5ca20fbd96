"""Job files for the test cluster, and what its ranks print."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What one rank of programs/train.py saw."""

    rank: int
    local_rank: int
    world_size: int
    host: str
    mask: str | None
    order: str | None
    nodes: list[str]
    threads: str | None
    sum: float


def job(name: str, torch: dict[str, Any], **spec: Any) -> str:  # noqa: ANN401  # a job file's fields are of any type
    """A job file that runs programs/train.py with the torch of the host; ``torch`` is the fixture's mounts and env."""
    programs = {"name": "programs", "hostPath": {"path": str(PROGRAMS)}}
    fields = {
        "image": "docker.io/box/base:1",
        "imagePullPolicy": "Never",
        "command": ["python3", "/programs/train.py"],
        "volumes": [programs, *torch["volumes"]],
        "volumeMounts": [{"name": "programs", "mountPath": "/programs", "readOnly": True}, *torch["volumeMounts"]],
        "env": torch["env"],
        **spec,
    }
    metadata = {"name": name}
    # JSON is YAML: what a person would write by hand, without the hand.
    return json.dumps({"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": metadata, "spec": fields})


def trained(log: str) -> list[Seen]:
    """The ranks that trained, by rank, from the lines of a log (prefixed or not)."""
    found = [json.loads(line.split("trained ", 1)[1]) for line in log.splitlines() if "trained {" in line]
    seen = [
        Seen(
            rank=fields["rank"],
            local_rank=fields["localRank"],
            world_size=fields["worldSize"],
            host=fields["host"],
            mask=fields["mask"],
            order=fields["order"],
            nodes=fields["nodes"],
            threads=fields["threads"],
            sum=fields["sum"],
        )
        for fields in found
    ]
    return sorted(seen, key=lambda rank: rank.rank)


def uuids_by_pci(nodes: list[str]) -> list[str]:
    """The UUIDs of the fake cards behind ``nodes`` (/dev/nvidia<minor>), in PCI order: minors in reverse (nvml.c)."""
    minors = sorted((int(node.removeprefix("/dev/nvidia")) for node in nodes), reverse=True)
    return [f"GPU-00000000-0000-0000-0000-00000000000{minor}" for minor in minors]

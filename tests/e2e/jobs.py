"""Job files for the test cluster, and what its ranks print."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cluster.client import Cluster

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, kw_only=True)
class Seen:
    """The devices that one rank of programs/train.py saw."""

    rank: int
    local_rank: int
    world_size: int
    host: str
    mask: str | None
    order: str | None
    nodes: list[str]
    threads: str | None
    ccl_workers: str | None
    master: str
    sum: float


def job(name: str, cluster: Cluster, **spec: Any) -> str:  # noqa: ANN401  # a job file's fields are of any type
    """A job file that runs programs/train.py in the cluster's image; ``spec`` adds to it and overrides it."""
    fields = {
        "image": cluster.images.base,
        "imagePullPolicy": "Never",
        "command": ["python3", "/programs/train.py"],
        "volumes": [{"name": "programs", "hostPath": {"path": str(PROGRAMS)}}],
        "volumeMounts": [{"name": "programs", "mountPath": "/programs", "readOnly": True}],
        **spec,
    }
    file = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": name}, "spec": fields}
    return json.dumps(file)  # JSON is YAML


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
            ccl_workers=fields["cclWorkers"],
            master=fields["master"],
            sum=fields["sum"],
        )
        for fields in found
    ]
    return sorted(seen, key=lambda rank: rank.rank)


def uuids_by_pci(nodes: list[str]) -> list[str]:
    """The UUIDs of the fake cards behind ``nodes`` (/dev/nvidia<minor>), in PCI order: minors in reverse (nvml.c)."""
    minors = sorted((int(node.removeprefix("/dev/nvidia")) for node in nodes), reverse=True)
    return [f"GPU-00000000-0000-0000-0000-00000000000{minor}" for minor in minors]


def assert_ordered(ranks: list[Seen], nodes: tuple[str, str]) -> None:
    """Two nodes of two ranks, `count: 3, devices: [2, 0]`: each sees its node's third and first device, by UUID."""
    places = [(nodes[0], 0, 0), (nodes[0], 1, 1), (nodes[1], 2, 0), (nodes[1], 3, 1)]
    assert [(rank.host, rank.rank, rank.local_rank) for rank in ranks] == places
    for rank in ranks:
        allotted = uuids_by_pci(rank.nodes)
        assert len(allotted) == 3
        assert rank.mask == f"{allotted[2]},{allotted[0]}"
        assert (rank.order, rank.sum, rank.world_size) == ("PCI_BUS_ID", 6.0, 4)
    assert not set(ranks[0].nodes) & set(ranks[2].nodes), "two nodes hold the same device"


def own_device(rank: Seen) -> str:
    """The UUID of the device that a rank computes on, of those that it sees."""
    return str(rank.mask).split(",")[rank.local_rank]


def apply_and_wait(cluster: Cluster, namespace: str, file: str, timeout: int = 180) -> subprocess.CompletedProcess[str]:
    """`k8sel apply --wait` of a job file, whatever its end."""
    options = ("-q", "--wait", "--timeout", str(timeout), "-n", namespace, "-")
    return cluster.k8sel("apply", *options, input=file, check=False, timeout=timeout + 30)


def apply_and_follow(cluster: Cluster, namespace: str, file: str) -> tuple[subprocess.CompletedProcess[str], str]:
    """`k8sel apply`, then `k8sel logs` while the job runs; how `apply --wait` says that it ended, and the log.

    A node that ends a moment after the master may be cleaned up by the operator at once, its log with it.
    """
    cluster.k8sel("apply", "-q", "-n", namespace, "-", input=file)
    name: str = json.loads(file)["metadata"]["name"]
    log = cluster.k8sel("logs", "-q", name, "-n", namespace, timeout=240).stdout
    return apply_and_wait(cluster, namespace, file), log


def terminated(pod: dict[str, Any]) -> dict[str, Any]:
    """Returns the reason for the end of the pod's container; empty while it runs."""
    states = [container["state"].get("terminated", {}) for container in pod["status"].get("containerStatuses", [])]
    return states[0] if states else {}


def checked_out(cluster: Cluster, namespace: str) -> list[dict[str, Any]]:
    """The pods that the entrypoint ended with exit status 78."""
    pods = cluster.get("pods", "-n", namespace)["items"]
    return [pod for pod in pods if terminated(pod).get("exitCode") == 78]

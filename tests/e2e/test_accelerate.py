"""accelerate launch, the real one, between the operator's variables and the ranks."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.client import Cluster
from e2e.jobs import PROGRAMS, apply_and_follow, job, uuids_by_pci
from e2e.test_arrives import shown

pytestmark = pytest.mark.cluster

WORDS = ["--", "$$", "${local_rank}", "$HOME", ""]


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(("nodes", "devices"), [(2, [2, 0]), (1, [1])])
def test_every_rank_is_where_the_plan_says(
    cluster: Cluster, namespace: str, accelerate: Path, nodes: int, devices: list[int]
) -> None:
    folders = {"programs": PROGRAMS, "accelerate": accelerate}
    spec = {
        "launcher": "accelerate",
        "nodes": nodes,
        "accelerator": {"type": "cuda", "count": 3, "devices": devices},
        "command": ["python3", "/programs/show.py", *WORDS],
        "volumes": [{"name": name, "hostPath": {"path": str(path)}} for name, path in folders.items()],
        "volumeMounts": [{"name": name, "mountPath": f"/{name}", "readOnly": True} for name in folders],
        "env": [
            {"name": "PYTHONPATH", "value": "/accelerate"},
            {"name": "PATH", "value": "/accelerate/bin:/usr/local/bin:/usr/bin:/bin"},
        ],
    }
    ended, log = apply_and_follow(cluster, namespace, job("hub", cluster, **spec))
    assert ended.returncode == 0, ended.stderr + log

    ranks = shown(log)
    hosts = ["hub-master-0"] * len(devices) + ["hub-worker-0"] * len(devices) * (nodes - 1)
    assert [rank["host"] for rank in ranks] == hosts
    assert {rank["env"]["WORLD_SIZE"] for rank in ranks} == {str(len(hosts))}
    for rank in ranks:
        allotted = uuids_by_pci(rank["nodes"])
        assert rank["env"]["CUDA_VISIBLE_DEVICES"] == ",".join(allotted[device] for device in devices)
        assert rank["words"] == WORDS

"""Tests that every rank gets the job file's values unchanged, by torchrun and by mpirun and ssh."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.client import Cluster
from e2e.jobs import apply_and_wait, job, uuids_by_pci

pytestmark = pytest.mark.cluster

WORDS = [
    "--",
    "",
    "$(HOSTNAME)",
    "$$",
    "$HOME",
    "${local_rank}",
    "a b",
    "--lr=1e-3",
    '"it\'s"',
    "two\nlines",
    "größe",
    "*",
    ";",
]
TEXTS = {
    "MY_DOLLARS": "$HOME $$ $(",
    "MY_QUOTES": '"it\'s" `date` \\n {a,b} *',
    "MY_LINES": "one\n two\n",
    "MY_LETTERS": "größe 大",
    "MY_SEPARATORS": "a;b,c=d:e",
    "MY_EMPTY": "",
}
LONGEST = "n1" + "n" * 52  # with "-worker-0" or "-launcher" behind it, a host name of 63 characters
SPEC: dict[str, Any] = {
    "command": ["python3", "/programs/show.py", *WORDS],
    "accelerator": {"type": "cuda", "count": 3, "devices": [2, 0], "isolation": "process"},
    "cpu": {"threadsPerProcess": 3},
    "sharedMemory": "8Mi",
    "workingDir": "/var/tmp",
    "env": [
        # Kubernetes reads a value's dollars, so the file doubles them; $(MY_LETTERS) is filled in by Kubernetes.
        *({"name": name, "value": text.replace("$", "$$")} for name, text in TEXTS.items()),
        {"name": "MY_REFERENCE", "value": "<$(MY_LETTERS)>"},
        {"name": "MY_SECRET", "valueFrom": {"secretKeyRef": {"name": "given", "key": "text"}}},
        {"name": "MY_SETTING", "valueFrom": {"configMapKeyRef": {"name": "given", "key": "text"}}},
    ],
}
EXPECTED = {
    **TEXTS,
    "MY_REFERENCE": "<größe 大>",
    "MY_SECRET": "s€cret\n$(HOSTNAME)",
    "MY_SETTING": "line\nline",
    "WORLD_SIZE": "2",
    "OMP_NUM_THREADS": "3",
    "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
}


def shown(log: str) -> list[dict[str, Any]]:
    """Returns the output of the ranks of programs/show.py, by rank."""
    found = [json.loads(line.split("shown ", 1)[1]) for line in log.splitlines() if "shown {" in line]
    return sorted(found, key=lambda rank: int(rank["env"]["RANK"]))


@pytest.mark.usefixtures("gpus")
@pytest.mark.parametrize(("launcher", "host"), [("torchrun", "master-0"), ("mpirun", "worker-0")])
def test_every_rank_gets_what_the_file_says(cluster: Cluster, namespace: str, launcher: str, host: str) -> None:
    given = {"apiVersion": "v1", "metadata": {"name": "given", "namespace": namespace}}
    cluster.apply({**given, "kind": "Secret", "stringData": {"text": EXPECTED["MY_SECRET"]}})
    cluster.apply({**given, "kind": "ConfigMap", "data": {"text": EXPECTED["MY_SETTING"]}})

    applied = apply_and_wait(cluster, namespace, job(LONGEST, cluster, launcher=launcher, **SPEC))
    log = cluster.k8sel("logs", "--no-follow", LONGEST, "-n", namespace).stdout
    assert applied.returncode == 0, applied.stderr + log

    ranks = shown(log)
    allotted = uuids_by_pci(ranks[0]["nodes"])
    assert [(rank["env"]["RANK"], rank["env"]["LOCAL_RANK"]) for rank in ranks] == [("0", "0"), ("1", "1")]
    assert [rank["env"]["CUDA_VISIBLE_DEVICES"] for rank in ranks] == [allotted[2], allotted[0]]
    for rank in ranks:
        assert rank["words"] == WORDS
        assert {name: rank["env"].get(name) for name in EXPECTED} == EXPECTED
        assert (rank["folder"], rank["memory"]) == ("/var/tmp", 8 * 2**20)
        assert rank["host"] == f"{LONGEST}-{host}"

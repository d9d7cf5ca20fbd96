"""Tests that k8sel and the API server agree on a namespace's Pod Security level."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from planning.levels import JOBS, USER, loaded, refused_by

from cluster.client import Cluster
from e2e.jobs import apply_and_wait, job
from k8sel import api
from k8sel.jobfile.rules.namespace import LEVELS

pytestmark = pytest.mark.cluster

# As training-operator adds it to a Worker where there is a Master (pkg/controller.v1/pytorch/initcontainer.go).
INIT = {"name": "init-pytorch", "image": "alpine:3.10", "command": ["sh", "-c", "nslookup job-master-0"]}


def pods(spec: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The pods of a job, as far as their security goes: the templates, and what the operator adds."""
    rendered = api.render(api.plan(loaded(spec)))[-1]["spec"]
    replicas = rendered.get("pytorchReplicaSpecs") or rendered["mpiReplicaSpecs"]
    for name, replica in replicas.items():
        pod = replica["template"]["spec"]
        pod["restartPolicy"] = "Never"
        if name == "Worker" and "Master" in replicas:
            pod["initContainers"] = [INIT]
        yield {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name.lower()}, "spec": pod}


@pytest.mark.parametrize("level", LEVELS)
def test_a_levels_verdict_is_the_api_servers(cluster: Cluster, level: str) -> None:
    named = [(title, pod) for title, spec in JOBS.items() for pod in pods(spec)]
    for number, (_, pod) in enumerate(named):
        pod["metadata"]["name"] += f"-{number}"
    with cluster.namespace(**{"pod-security.kubernetes.io/enforce": level}) as namespace:
        objects = json.dumps({"apiVersion": "v1", "kind": "List", "items": [pod for _, pod in named]})
        done = cluster.kubectl("create", "--dry-run=server", "-n", namespace, "-f", "-", input=objects, check=False)
    refused = {title for title, pod in named if f'pods "{pod["metadata"]["name"]}" is forbidden' in done.stderr}
    assert done.stderr.count("Error from server") == done.stderr.count("violates PodSecurity"), done.stderr

    assert refused == refused_by(level)


@pytest.mark.parametrize(("level", "user"), [("baseline", {}), ("restricted", USER)])
def test_an_mpijob_runs_where_its_level_allows_it(cluster: Cluster, level: str, user: dict[str, Any]) -> None:
    command = ["sh", "-c", 'echo "user $(id -u)"']
    spec = {"launcher": "mpirun", "nodes": 2, "accelerator": {"type": "cpu"}, "volumes": [], "volumeMounts": []}
    with cluster.namespace(**{"pod-security.kubernetes.io/enforce": level}) as namespace:
        applied = apply_and_wait(cluster, namespace, job("rings", cluster, **spec, **user, command=command), timeout=90)
        log = cluster.k8sel("logs", "--no-follow", "rings", "-n", namespace).stdout
    assert applied.returncode == 0, applied.stderr + log
    assert log.count(f"user {1000 if user else 0}\n") == 2

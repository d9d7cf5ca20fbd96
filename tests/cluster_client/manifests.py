"""Small jobs as plain dicts, as `render` would give them, but with a shell in place of training."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
IMAGE = "box/base:1"


def config_map(job: str) -> Object:
    """The objects beside a job."""
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": f"{job}-k8sel-abc", "labels": {"k8sel.dev/job": job}},
        "immutable": True,
        "binaryData": {"entrypoint.pyz": "AAAA"},
    }


def pytorch_job(name: str, script: str = "true", *, workers: int = 0, image: str = IMAGE) -> Object:
    """A PyTorchJob whose pods run a shell script."""
    replicas = {"Master": _replica("pytorch", script, 1, image)}
    if workers:
        replicas["Worker"] = _replica("pytorch", script, workers, image)
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": name},
        "spec": {
            "nprocPerNode": "1",
            "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "None"},
            "pytorchReplicaSpecs": replicas,
        },
    }


def mpi_job(name: str, script: str = "true", *, launchers: int = 1) -> Object:
    """An MPIJob whose launcher runs a shell script, beside one worker that only waits."""
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": {"name": name},
        "spec": {
            "slotsPerWorker": 1,
            "runPolicy": {"backoffLimit": 0, "cleanPodPolicy": "Running"},
            "mpiReplicaSpecs": {
                "Launcher": _replica("launcher", script, launchers, IMAGE),
                "Worker": _replica("worker", "sleep 600", 1, IMAGE),
            },
        },
    }


def container(job: Object) -> Object:
    """The master's container, to change it."""
    found: Object = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["containers"][0]
    return found


def _replica(name: str, script: str, replicas: int, image: str) -> Object:
    command = ["bash", "-c", script]
    pod = {
        "containers": [
            {
                "name": name,
                "image": image,
                "command": command,
                "terminationMessagePolicy": "FallbackToLogsOnError",
            }
        ],
        "terminationGracePeriodSeconds": 1,
    }
    return {"replicas": replicas, "restartPolicy": "Never", "template": {"spec": pod}}

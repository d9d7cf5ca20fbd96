"""The test cluster itself: what every other cluster test stands on, without k8sel."""

from __future__ import annotations

import json
from typing import Any

import pytest

from cluster.client import Cluster, await_

pytestmark = pytest.mark.cluster

LIST_DEVICES = """
import ctypes, json, os
nvml, count, handle = ctypes.CDLL("libnvidia-ml.so.1"), ctypes.c_uint(), ctypes.c_void_p()
uuid = ctypes.create_string_buffer(96)
assert nvml.nvmlInit_v2() == 0 and nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) == 0
uuids = []
for index in range(count.value):
    assert nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle)) == 0
    assert nvml.nvmlDeviceGetUUID(handle, uuid, 96) == 0
    uuids.append(uuid.value.decode())
nodes = sorted(name for name in os.listdir("/dev") if name.startswith("nvidia"))
print(json.dumps({"uuids": uuids, "nodes": nodes, "allotted": os.environ["NVIDIA_VISIBLE_DEVICES"].split(",")}))
"""

ALL_REDUCE = """
import torch, torch.distributed as dist
dist.init_process_group("gloo")
total = torch.tensor([dist.get_rank() + 1])
dist.all_reduce(total)
print("rank", dist.get_rank(), "of", dist.get_world_size(), "total", total.item())
dist.destroy_process_group()
"""


def container(cluster: Cluster, *command: str, gpus: int = 0) -> dict[str, Any]:
    """One container that asks for so many GPUs."""
    resources = {"limits": {"nvidia.com/gpu": gpus}} if gpus else {}
    return {"name": "pytorch", "image": cluster.images.base, "command": [*command], "resources": resources}


def as_user(content: dict[str, Any], user: int) -> dict[str, Any]:
    """The container, run by this user."""
    return {**content, "securityContext": {"runAsUser": user}}


def ended(cluster: Cluster, namespace: str, name: str, content: dict[str, Any]) -> tuple[str, str]:
    """Runs a pod to its end: its phase and what it printed."""
    spec = {"restartPolicy": "Never", "containers": [content]}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": namespace}, "spec": spec})

    def over() -> str:
        phase: str = cluster.get("pod", name, "-n", namespace)["status"]["phase"]
        return phase if phase in ("Succeeded", "Failed") else ""

    phase = await_(over, what=f"end of pod {name}")
    return phase, cluster.kubectl("logs", name, "-n", namespace).stdout


def found_devices(cluster: Cluster, namespace: str, count: int) -> dict[str, list[str]]:
    """Returns the devices that a pod with so many GPUs finds."""
    phase, log = ended(cluster, namespace, "devices", container(cluster, "python3", "-c", LIST_DEVICES, gpus=count))
    assert phase == "Succeeded", log
    found: dict[str, list[str]] = json.loads(log)
    return found


def replica(content: dict[str, Any]) -> dict[str, Any]:
    """One replica of a PyTorchJob."""
    return {"replicas": 1, "restartPolicy": "Never", "template": {"spec": {"containers": [content]}}}


def test_the_node_offers_fake_gpus(cluster: Cluster) -> None:
    status = cluster.get("node", "box")["status"]
    assert (status["allocatable"]["nvidia.com/gpu"], status["allocatable"]["gpu.intel.com/i915"]) == ("8", "4")


def test_a_pod_gets_the_nodes_and_the_driver_of_its_gpus(cluster: Cluster, namespace: str, gpus: None) -> None:
    found = found_devices(cluster, namespace, 2)
    assert len(found["allotted"]) == 2
    assert sorted(found["uuids"]) == sorted(found["allotted"])
    assert found["nodes"] == sorted("nvidia" + uuid[-1] for uuid in found["allotted"])


@pytest.mark.parametrize("which", [3, "next"])
def test_a_broken_gpu_is_promised_and_not_handed_over(
    cluster: Cluster, namespace: str, gpus: None, which: int | str
) -> None:
    with cluster.broken(which):
        found = found_devices(cluster, namespace, 8)
    (missing,) = set(found["allotted"]) - set(found["uuids"])
    assert len(found["allotted"]) == 8
    assert which == "next" or missing[-1] == str(which)


def test_what_the_kubelet_allotted_can_be_read(cluster: Cluster, namespace: str, gpus: None) -> None:
    spec = {"containers": [container(cluster, "sleep", "infinity", gpus=3)], "terminationGracePeriodSeconds": 0}
    cluster.apply({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": namespace}, "spec": spec})
    cluster.kubectl("wait", "--for=condition=Ready", "pod/p", "-n", namespace, "--timeout=60s")
    seen = cluster.kubectl("exec", "p", "-n", namespace, "--", "printenv", "NVIDIA_VISIBLE_DEVICES").stdout
    assert cluster.allotted(namespace, "p") == sorted(seen.strip().split(","))


def test_torchrun_all_reduces_in_a_pytorchjob(cluster: Cluster, namespace: str) -> None:
    content = container(cluster, "bash", "-c", 'echo "$CODE" > /tmp/t.py; exec torchrun /tmp/t.py')
    content["env"] = [{"name": "CODE", "value": ALL_REDUCE}]
    replicas = {"Master": replica(content), "Worker": replica(content)}
    cluster.apply(
        {
            "apiVersion": "kubeflow.org/v1",
            "kind": "PyTorchJob",
            "metadata": {"name": "sum", "namespace": namespace},
            "spec": {"nprocPerNode": "1", "pytorchReplicaSpecs": replicas},
        }
    )
    cluster.kubectl("wait", "--for=condition=Succeeded", "pytorchjob/sum", "-n", namespace, "--timeout=110s")
    assert "rank 0 of 2 total 3" in cluster.kubectl("logs", "sum-master-0", "-n", namespace).stdout


@pytest.mark.parametrize(("home", "user", "port"), [("/root", 0, 22), ("/home/mpiuser", 1000, 2222)])
def test_open_mpi_starts_ranks_on_every_worker(
    cluster: Cluster, namespace: str, home: str, user: int, port: int
) -> None:
    sshd = ["/usr/sbin/sshd", "-De", "-o", "StrictModes=no", *(["-f", f"{home}/.sshd_config"] if user else [])]
    ssh = f"-p {port} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o ConnectionAttempts=30"
    mpirun = ["mpirun", "--allow-run-as-root", "--mca", "plm_rsh_args", ssh, "sh", "-c", "echo rank on $(hostname)"]
    launcher = replica(as_user(container(cluster, *mpirun), user))
    worker = {**replica(as_user(container(cluster, *sshd), user)), "replicas": 2}
    spec = {
        "slotsPerWorker": 2,
        "sshAuthMountPath": f"{home}/.ssh",
        "launcherCreationPolicy": "WaitForWorkersReady",
        "mpiReplicaSpecs": {"Launcher": launcher, "Worker": worker},
    }
    metadata = {"name": "mpi", "namespace": namespace}
    cluster.apply({"apiVersion": "kubeflow.org/v2beta1", "kind": "MPIJob", "metadata": metadata, "spec": spec})
    cluster.kubectl("wait", "--for=condition=Succeeded", "mpijob/mpi", "-n", namespace, "--timeout=110s")
    log = cluster.kubectl("logs", "job/mpi-launcher", "-n", namespace).stdout
    assert (log.count("rank on mpi-worker-0"), log.count("rank on mpi-worker-1")) == (2, 2)


def test_a_webhook_can_be_away(cluster: Cluster, namespace: str, alone: None) -> None:
    job = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "j", "namespace": namespace}}
    job["spec"] = {"pytorchReplicaSpecs": {"Master": replica(container(cluster, "true"))}}
    arguments = ("create", "--dry-run=server", "-f", "-")
    with cluster.without("training-operator"):
        refused = cluster.kubectl(*arguments, input=json.dumps(job), check=False)
    assert "failed calling webhook" in refused.stderr
    cluster.kubectl(*arguments, input=json.dumps(job))

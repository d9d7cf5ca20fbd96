"""The pods of a rendered PyTorchJob as processes of this machine, with what training-operator and kubelet add."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from k8sel.planning.env import filled
from launchers.starting import Done, k8sel, start

Pod = tuple[list[str], dict[str, str]]  # its command, and its whole environment


def free_port() -> str:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return str(one.getsockname()[1])


def pods(text: str, env: Mapping[str, str]) -> list[Pod]:
    """Those of the job file ``text``, in an image that has k8sel-entrypoint; ``env`` stands for the image's own."""
    file = json.loads(text)
    file["spec"]["entrypoint"] = {"mode": "image"}
    job = json.loads(k8sel(json.dumps(file), env, "render", "-q", "-o", "json").stdout)
    port = free_port()
    replicas = job["spec"]["pytorchReplicaSpecs"]
    names = ["master-0", *(f"worker-{number}" for number in range(replicas.get("Worker", {"replicas": 0})["replicas"]))]
    nodes = [(replicas["Worker" if rank else "Master"], f"job-{name}") for rank, name in enumerate(names)]
    return [
        _pod(replica, name, env, operators(rank, len(nodes), job["spec"]["nprocPerNode"], port))
        for rank, (replica, name) in enumerate(nodes)
    ]


def operators(rank: int, nodes: int, processes: str, port: str) -> dict[str, str]:
    """Returns the variables that training-operator 1.9 appends (pkg/controller.v1/pytorch/envvar.go).

    On one machine, the master's name is its address.
    """
    return {
        "PYTHONUNBUFFERED": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "WORLD_SIZE": str(nodes * int(processes)),
        "RANK": str(rank),
        "PET_MASTER_ADDR": "127.0.0.1",
        "PET_MASTER_PORT": port,
        "PET_NPROC_PER_NODE": processes,
        "PET_NODE_RANK": str(rank),
        "PET_NNODES": str(nodes),
    }


def _pod(replica: dict[str, Any], name: str, image: Mapping[str, str], added: Mapping[str, str]) -> Pod:
    """As kubelet fills it in: variables in their order, the last of a name counts; the command with all of them."""
    (container,) = replica["template"]["spec"]["containers"]
    values: dict[str, str] = {}
    for entry in (*container["env"], *({"name": key, "value": value} for key, value in added.items())):
        values[entry["name"]] = filled(entry["value"], values) if "value" in entry else name
    return [filled(word, values) for word in container["command"]], {**image, **values}


def started(text: str, env: Mapping[str, str]) -> list[Done]:
    """All at once, each to its end."""
    with ThreadPoolExecutor() as pool:
        return list(pool.map(lambda pod: start(*pod), pods(text, env)))

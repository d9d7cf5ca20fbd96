"""An image that does not fit its job: the entrypoint says so, before a rank exists, and nothing is tried again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from cluster.client import Cluster
from e2e.jobs import apply_and_wait, checked_out, job, terminated
from e2e.test_mpis import variables, with_mpi

pytestmark = pytest.mark.cluster

TRAIN = ["python3", "/programs/train.py"]
CCL = (
    "backend ccl needs torch 2.8 or older and oneccl_bind_pt of torch's version; the command's Python has torch 2.15.0"
)


@dataclass(frozen=True, kw_only=True)
class Case:
    """A job of two processes, what its image lacks, and the message's part that says so."""

    spec: dict[str, Any]
    image: str = ""  # the MPI that it has, by the folder's name
    env: dict[str, str] | None = None
    message: str


INTEL: dict[str, Any] = {"launcher": "mpirun", "nodes": 2, "mpi": {"implementation": "Intel"}}
TORCHRUN: dict[str, Any] = {"launcher": "torchrun", "processesPerNode": 2}
CASES = {
    "no mpirun": Case(spec=INTEL, message="no program mpiexec.hydra on PATH"),
    "another mpirun": Case(
        spec=INTEL,
        image="MPICH",
        message="mpi.implementation is Intel, and mpiexec.hydra is MPICH's (HYDRA build details:)",
    ),
    "no torchrun": Case(spec=TORCHRUN, env={"PATH": "/usr/bin:/bin"}, message="no program torchrun on PATH"),
    "no deepspeed": Case(
        spec={**TORCHRUN, "launcher": "deepspeed"},
        env={"PYTHONPATH": "/opt/torch"},
        message="deepspeed is not installed beside torch 2.15.0: run pip install deepspeed",
    ),
    "no ccl in torch, by mpirun": Case(
        spec={**INTEL, "command": [*TRAIN, "--ddp_backend", "ccl"]},
        image="Intel",
        env={"PYTHONPATH": "/opt/torch"},
        message=CCL,
    ),
    "no ccl in torch, by torchrun": Case(
        spec={**TORCHRUN, "command": [*TRAIN, "--ddp_backend=ccl"]}, env={"PYTHONPATH": "/opt/torch"}, message=CCL
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_entrypoint_says_what_is_wrong(cluster: Cluster, namespace: str, mpis: Path, name: str) -> None:
    case = CASES[name]
    fields = with_mpi(mpis / case.image, case.env) if case.image else plain(case.env)
    applied = apply_and_wait(cluster, namespace, job("unfit", cluster, **{**fields, **case.spec}), timeout=90)
    assert applied.returncode == 1

    (pod,) = checked_out(cluster, namespace)
    message = terminated(pod)["message"].strip()
    assert message.startswith("k8sel: ")
    assert case.message in message
    assert message.splitlines()[0] in applied.stderr
    assert message.splitlines()[0] in cluster.k8sel("status", "unfit", "-n", namespace).stdout
    log = cluster.k8sel("logs", "--no-follow", "unfit", "-n", namespace).stdout
    assert "local rank" not in log
    assert "trained" not in log


def plain(env: dict[str, str] | None) -> dict[str, Any]:
    """The fields of a job in the image as it is."""
    return {"accelerator": {"type": "cpu"}, "command": TRAIN, **variables(env or {})}

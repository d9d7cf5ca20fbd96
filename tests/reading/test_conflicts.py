"""The table of contradictions: what its rows ask exists, and the rows that no bad file meets say what they mean."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from k8sel.facts.accelerators import Row
from k8sel.facts.backends import Backend
from k8sel.facts.launchers import Launcher, Mpi
from k8sel.facts.platforms import PLATFORMS
from k8sel.jobfile.defaults import default
from k8sel.jobfile.rules import conflicts
from k8sel.jobfile.rules.conflicts import CONFLICTS, OPERATORS, VIEWS, Conflict
from k8sel.jobfile.spec import Spec, decode
from k8sel.jobfile.validate import errors, validate

MODELS: dict[str, type[msgspec.Struct]] = {
    "spec": Spec,
    "launcher": Launcher,
    "type": Row,
    "backend": Backend,
    "mpi": Mpi,
}
ROOT = "leave it out, or set the user: podSecurityContext: {runAsUser: 1000}"
MPI = {"launcher": "mpirun", "mpi": {"sshAuthMountPath": "/keys"}}
USER = {"launcher": "mpirun", "mpi": {"sshAuthMountPath": "/root/.ssh"}, "podSecurityContext": {"runAsUser": 7}}
# platform, fields of spec, and the one problem that they are
CASES: dict[str, tuple[str, dict[str, Any], str]] = {
    "root's keys": (
        "kubernetes",
        MPI,
        f"spec.mpi.sshAuthMountPath: invalid: ssh refuses keys at /keys for root. Hint: {ROOT}",
    ),
    "keys of another user": (
        "kubernetes",
        USER,
        f"spec.mpi.sshAuthMountPath: invalid: ssh refuses keys at /root/.ssh for a user that is not root. Hint: {ROOT}",
    ),
    "a group for root's keys": (
        "kubernetes",
        {"launcher": "mpirun", "podSecurityContext": {"fsGroup": 7}},
        "spec.podSecurityContext.fsGroup: invalid: with fsGroup, a group can read root's ssh keys, so ssh refuses "
        "them. Hint: leave it out, or write for example runAsUser: 1000",
    ),
    "the pod's root": (
        "kubernetes",
        {"podSecurityContext": {"runAsNonRoot": True, "runAsUser": 0}},
        "spec.podSecurityContext.runAsUser: invalid: runAsNonRoot is true, but user 0 is root. "
        "Hint: write for example runAsUser: 1000",
    ),
    "no backend for oneCCL": (
        "kubernetes",
        {"accelerator": {"type": "cuda"}, "ccl": {"workers": 2}},
        "spec.ccl: forbidden: the job names no backend, so it does not use oneCCL. Hint: leave ccl out",
    ),
    "several nodes of MPI in Docker": (
        "docker",
        {"launcher": "mpirun", "nodes": 2},
        "spec.nodes: forbidden: mpirun reaches other nodes over ssh, and only mpi-operator creates the keys. "
        "Hint: write nodes: 1 with more processesPerNode, or launcher: torchrun",
    ),
    "several nodes in the machine's network": (
        "docker",
        {"nodes": 2, "hostNetwork": True},
        "spec.hostNetwork: forbidden: several nodes on one machine need a network of their own. "
        "Hint: leave it out, or write nodes: 1",
    ),
}


def refused(platform: str, spec: dict[str, Any], annotations: dict[str, str] | None = None) -> list[str]:
    """Returns the messages of the rules that refuse a job on a platform."""
    least = {"image": "img", "command": ["run"], "launcher": "torchrun", "accelerator": {"type": "cpu"}}
    metadata = {"name": "train", "annotations": annotations or {}}
    job = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": metadata, "spec": least | spec}
    return [
        str(problem) for problem in errors(validate(default(decode(job), PLATFORMS[platform]), PLATFORMS[platform]))
    ]


@pytest.mark.parametrize("name", CASES)
def test_fields_that_contradict_each_other_are_refused(name: str) -> None:
    platform, spec, message = CASES[name]

    assert refused(platform, spec) == [message]


def test_annotations_have_a_limit_together() -> None:
    limit = 256 * 1024

    assert refused("kubernetes", {}, {"a": "x" * (limit - 1)}) == []
    assert refused("kubernetes", {}, {"a": "x" * limit}) == [
        "metadata.annotations: invalid: the annotations have 262145 bytes, but at most 262144 are allowed. "
        "Hint: put the data in a ConfigMap, and mount it as a volume"
    ]


def test_false_is_not_zero_and_true_is_not_one() -> None:
    privileged = {"privileged": True, "allowPrivilegeEscalation": False}

    assert len(refused("kubernetes", {"securityContext": privileged})) == 1
    assert not any("root" in line for line in refused("kubernetes", {"securityContext": {"runAsNonRoot": True}}))


@pytest.mark.parametrize("row", CONFLICTS, ids=lambda row: row.message)
def test_a_row_asks_for_what_there_is(row: Conflict) -> None:
    tests = {name: limit for wanted in row.when.values() if isinstance(wanted, dict) for name, limit in wanted.items()}
    filled = re.findall(r"\{([a-zA-Z]+(?:\.[a-zA-Z]+)+),?\}", f"{row.path} {row.message} {row.hint}")
    paths = [*row.when, *filled, *(limit for limit in tests.values() if isinstance(limit, str))]

    assert tests.keys() <= OPERATORS.keys()
    assert row.why
    assert [path for path in paths if not _exists(path)] == []


def _exists(path: str) -> bool:
    """Reports if a path begins with a part of the view, and continues in the models and tables."""
    head, *keys = path.split(".")
    if head == "facts":
        return keys[0] in conflicts.FACTS
    if head not in MODELS:
        return head in ("on", *VIEWS)
    computed = isinstance(getattr(MODELS[head], keys[0], None), property)
    return computed or keys[0] in (*MODELS[head].__struct_encode_fields__, "name")

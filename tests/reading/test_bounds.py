"""Rules at their bounds: the last value that is allowed, and the first that is not."""

from __future__ import annotations

from typing import Any

import pytest

from k8sel.jobfile import canonical, yamlio
from k8sel.jobfile.defaults import default
from k8sel.jobfile.load import load
from k8sel.jobfile.quantity import whole
from k8sel.jobfile.validate import errors, validate

# Fields of spec that are just allowed, the same with one step more, and the message for that.
BOUNDS: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "processes for two devices": (
        {"accelerator": {"type": "cuda", "count": 2}, "processesPerNode": 2},
        {"accelerator": {"type": "cuda", "count": 2}, "processesPerNode": 3},
        "spec.processesPerNode: invalid: 3 processes on a node, but only 2 devices. "
        "Hint: write processesPerNode: 2, or request more devices",
    ),
    "a device and its neighbour": (
        {"accelerator": {"type": "cuda", "devices": [1, 0]}},
        {"accelerator": {"type": "cuda", "devices": [1, 1]}},
        "spec.accelerator.devices[1]: duplicate: device 1 is already in devices[0]. Hint: name each device once",
    ),
    "a device and the count": (
        {"accelerator": {"type": "cuda", "count": 2, "devices": [1]}},
        {"accelerator": {"type": "cuda", "count": 1, "devices": [1]}},
        "spec.accelerator.devices[0]: invalid: count is 1, but device 1 needs a count above 1. "
        "Hint: count: 2, or devices: [0]",
    ),
    "shared memory in memory": (
        {"accelerator": {"type": "cuda"}, "resources": {"memory": "1Gi"}, "sharedMemory": "1Gi"},
        {"accelerator": {"type": "cuda"}, "resources": {"memory": "1Gi"}, "sharedMemory": "1025Mi"},
        "spec.sharedMemory: invalid: 1025Mi of shared memory is part of the memory, but resources.memory is only 1Gi. "
        "Hint: raise resources.memory, or lower sharedMemory",
    ),
}


def said(fields: dict[str, Any], name: str = "train") -> list[str]:
    """Returns the messages about a job with this name and these fields of spec, without their places."""
    spec = {"image": "registry.example/train:1", "command": ["python", "train.py"], "launcher": "torchrun", **fields}
    data = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": name}, "spec": spec}
    (job,) = load(yamlio.dump([data]).encode(), "job.yaml")
    return [str(problem) for problem in errors(validate(default(job.file)))]


@pytest.mark.parametrize("name", BOUNDS)
def test_the_last_value_passes_and_the_next_is_refused(name: str) -> None:
    last, beyond, message = BOUNDS[name]
    assert (said(last), said(beyond)) == ([], [message])


@pytest.mark.parametrize(("target", "suffix"), [("PyTorchJob", "-worker-10"), ("MPIJob", "-worker-11")])
def test_a_pods_name_may_have_63_characters(target: str, suffix: str) -> None:
    fields = {"target": target, "nodes": 12, "launcher": "torchrun" if target == "PyTorchJob" else "mpirun"}
    fields |= {"accelerator": {"type": "cuda"}}
    longest = 63 - len(suffix)
    assert said(fields, "a" * longest) == []
    (problem,) = said(fields, "a" * (longest + 1))
    assert "has 64 characters, but at most 63 are allowed" in problem


def test_a_part_of_a_unit_is_rounded_up() -> None:
    assert [whole(each) for each in ("1", "1001m", "1999m", 0.5)] == [1, 2, 2, 1]


def test_a_digest_has_numbers_as_go_writes_them() -> None:
    texts = {8.0: "8", 0.1: "0.1", 1e-6: "0.000001", 1e-7: "1e-7", 1e20: "100000000000000000000", 1e21: "1e+21"}
    assert {each: canonical.dumps(each) for each in texts} == texts

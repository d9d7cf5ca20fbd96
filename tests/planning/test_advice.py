"""Tests the warnings of a plan, and that a plain job gives none."""

from __future__ import annotations

from typing import Any

import pytest

from k8sel.errors import Kind
from planning.jobs import plan

CUDA = {"type": "cuda", "count": 2}
MEMORY = {"sharedMemory": "1Gi"}


@pytest.mark.parametrize(
    ("accelerator", "spec", "fields"),
    [
        (CUDA, MEMORY, []),
        ({"type": "cuda"}, {}, []),
        ({"type": "cuda", "devices": [2, 0]}, MEMORY, ["accelerator.devices"]),
        ({"type": "cuda", "devices": [2, 0], "allocation": "host"}, MEMORY, ["accelerator.allocation"]),
        (CUDA, {"processesPerNode": 1}, ["processesPerNode"]),
        ({**CUDA, "isolation": "process"}, {"processesPerNode": 1}, []),
        (CUDA, {"launcher": "python"}, []),
        (CUDA, {}, ["sharedMemory"]),
        (CUDA, {**MEMORY, "entrypoint": {"mode": "none"}}, ["entrypoint.mode"]),
        (CUDA, {**MEMORY, "entrypoint": {"check": "off"}}, ["entrypoint.check"]),
        (CUDA, {**MEMORY, "launcher": "deepspeed"}, ["launcher"]),
        ({"type": "cpu"}, {}, ["resources"]),
        ({"type": "cpu"}, {"resources": {"cpu": 4}}, []),
        ({"type": "cpu"}, {"resources": {"cpu": 4}, "launcher": "accelerate"}, ["launcher"]),
        (CUDA, {**MEMORY, "policy": {"backoffLimit": 1}}, ["policy.backoffLimit"]),
        (CUDA, {"launcher": "python", "policy": {"backoffLimit": 1}}, ["policy.backoffLimit"]),
        (CUDA, {**MEMORY, "launcher": "mpirun", "policy": {"backoffLimit": 1}}, ["policy.backoffLimit"]),
        (CUDA, {**MEMORY, "launcher": "mpirun", "podSecurityContext": {"runAsUser": 1000}}, []),
    ],
)
def test_what_is_wasted_or_risky_is_said(accelerator: dict[str, Any], spec: dict[str, Any], fields: list[str]) -> None:
    warnings = plan(accelerator, **spec).warnings

    assert [".".join(map(str, warning.path[1:])) for warning in warnings] == fields
    assert {warning.kind for warning in warnings} <= {Kind.WARNING}
    assert all(warning.hint for warning in warnings)


@pytest.mark.parametrize(("mode", "said"), [("none", True), ("configMap", False)])
def test_a_field_of_the_pod_is_the_launchers_where_nothing_reads_the_ranks_own(mode: str, said: bool) -> None:
    field = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    job = plan(CUDA, launcher="mpirun", env=[field], entrypoint={"mode": mode}, **MEMORY)

    assert (("spec", "env", 0, "valueFrom") in [warning.path for warning in job.warnings]) == said


def test_on_this_machine_nothing_is_said_about_pods() -> None:
    assert plan({"type": "cuda", "devices": [2, 0]}, "run").warnings == ()

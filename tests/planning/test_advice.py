"""Tests the warnings of a plan, and that a plain job gives none."""

from __future__ import annotations

from typing import Any

import pytest

from k8sel.errors import Kind
from planning.jobs import plan

CUDA = {"type": "cuda", "count": 2}
HOST = {"type": "cuda", "devices": [2, 0], "allocation": "host"}
MODULES = {"type": "hpu", "allocation": "host"}
MEMORY = {"sharedMemory": "1Gi"}


@pytest.mark.parametrize(
    ("accelerator", "spec", "fields"),
    [
        (CUDA, MEMORY, []),
        ({"type": "cuda"}, {}, []),
        ({"type": "cuda", "devices": [2, 0]}, MEMORY, ["accelerator.devices"]),
        (HOST, MEMORY, ["accelerator.allocation", "runtimeClassName"]),
        (HOST, {**MEMORY, "runtimeClassName": "nvidia"}, ["accelerator.allocation"]),
        ({"type": "rocm", "devices": [2, 0], "allocation": "host"}, MEMORY, ["accelerator.allocation"]),
        ({"type": "hpu", "count": 4}, MEMORY, []),
        ({"type": "hpu", "count": 3}, MEMORY, ["accelerator.devices"]),
        ({**MODULES, "devices": [5, 4]}, MEMORY, ["accelerator.allocation"]),
        ({**MODULES, "devices": [5, 6]}, MEMORY, ["accelerator.allocation", "accelerator.devices"]),
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


def test_the_warning_of_a_runtime_class_names_the_reason_and_the_line_to_add() -> None:
    *_, warning = plan(HOST, **MEMORY).warnings

    assert warning.message == (
        "only the container runtime nvidia reads NVIDIA_VISIBLE_DEVICES, and many clusters start pods with another one"
    )
    assert warning.hint == "write runtimeClassName: nvidia"


@pytest.mark.parametrize(
    ("given", "message", "hint"),
    [
        (
            {"type": "hpu", "count": 3},
            "3 devices on a node are not a group that the vendor documents",
            "use 2, 4 or 8 devices",
        ),
        (
            {**MODULES, "devices": [6, 5]},
            "devices 5, 6 are not a group that the vendor documents",
            "use 0,1 or 2,3 or 4,5 or 6,7",
        ),
    ],
)
def test_the_warning_of_a_group_names_the_groups_that_are_documented(
    given: dict[str, Any], message: str, hint: str
) -> None:
    *_, warning = plan(given, **MEMORY).warnings

    assert (warning.message, warning.hint) == (message, hint)


@pytest.mark.parametrize("platform", ["docker", "run"])
def test_a_machine_has_no_runtime_class(platform: str) -> None:
    assert ("spec", "runtimeClassName") not in [warning.path for warning in plan(HOST, platform, **MEMORY).warnings]


@pytest.mark.parametrize(("mode", "said"), [("none", True), ("configMap", False)])
def test_a_field_of_the_pod_is_the_launchers_where_nothing_reads_the_ranks_own(mode: str, said: bool) -> None:
    field = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    job = plan(CUDA, launcher="mpirun", env=[field], entrypoint={"mode": mode}, **MEMORY)

    assert (("spec", "env", 0, "valueFrom") in [warning.path for warning in job.warnings]) == said


def test_on_this_machine_nothing_is_said_about_pods() -> None:
    assert plan({"type": "cuda", "devices": [2, 0]}, "run").warnings == ()

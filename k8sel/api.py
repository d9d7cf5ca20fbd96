"""The library's steps: load, check, plan, render. Opens no file, reaches no network; imports no client library."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from msgspec.structs import replace

from k8sel import planner
from k8sel.defaults import default
from k8sel.load import Job, load
from k8sel.plan import JobPlan
from k8sel.targets import TARGETS, configmap

__all__ = ["Job", "load", "plan", "render"]


def plan(job: Job, door: str = "kubernetes", *, nodes: int | None = None) -> JobPlan:
    """``job`` decided for ``door``: kubernetes, docker or run; ``nodes`` instead of its own number.

    Raises SpecError with every problem of it.
    """
    file = job.file if nodes is None else replace(job.file, spec=replace(job.file.spec, nodes=nodes))
    defaulted = default(file, door, sockets=1 if door == "kubernetes" else _sockets())
    return planner.plan(defaulted, sha256=job.sha256, door=door)


def render(job_plan: JobPlan) -> list[dict[str, Any]]:
    """The plan's Kubernetes objects, in the order in which they are to be applied."""
    if job_plan.entrypoint_mode != "configMap":
        return [TARGETS[job_plan.target](job_plan, None)]
    brought = configmap.emit(job_plan)
    return [brought, TARGETS[job_plan.target](job_plan, brought["metadata"]["name"])]


def _sockets() -> int:
    """CPU sockets of this machine; 1 where it does not say."""
    packages = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/physical_package_id")
    return len({package.read_text() for package in packages}) or 1

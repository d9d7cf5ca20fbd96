"""The library's steps: load, check, plan, render. Opens no file, reaches no network; imports no client library."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from k8sel import planner, validate
from k8sel.defaults import default
from k8sel.errors import Problem, SpecError
from k8sel.load import Job, load
from k8sel.plan import JobPlan
from k8sel.targets import TARGETS, configmap

__all__ = ["Job", "check", "load", "plan", "render"]


def check(job: Job, door: str = "kubernetes", *, namespace_policy: str = "privileged") -> list[Problem]:
    """The warnings for ``job``. Raises SpecError with every problem of it.

    ``namespace_policy``: the Pod Security level that its namespace enforces.
    """
    refused = validate.namespace_policy(default(job.file, door), namespace_policy)
    job_plan = plan(job, door)
    _stop(refused, job)
    return list(job_plan.warnings)


def plan(job: Job, door: str = "kubernetes", *, nodes: int | None = None) -> JobPlan:
    """``job`` decided for ``door``: kubernetes, docker or run; ``nodes`` instead of its own number.

    Raises SpecError with every problem of it.
    """
    file = job.file if nodes is None else replace(job.file, spec=replace(job.file.spec, nodes=nodes))
    defaulted = default(file, door, sockets=1 if door == "kubernetes" else _sockets())
    found = validate.validate(defaulted, door)
    _stop(validate.errors(found), job)
    job_plan = planner.plan(defaulted, sha256=job.sha256, door=door)
    return dataclasses.replace(job_plan, warnings=tuple(_located([*found, *job_plan.warnings], job)))


def render(job_plan: JobPlan) -> list[dict[str, Any]]:
    """The plan's Kubernetes objects, in the order in which they are to be applied."""
    if job_plan.entrypoint_mode != "configMap":
        return [TARGETS[job_plan.target](job_plan, None)]
    brought = configmap.emit(job_plan)
    return [brought, TARGETS[job_plan.target](job_plan, brought["metadata"]["name"])]


def _stop(problems: list[Problem], job: Job) -> None:
    if problems:
        raise SpecError(_located(problems, job))


def _located(problems: list[Problem], job: Job) -> list[Problem]:
    return [
        problem if problem.location else dataclasses.replace(problem, location=job.document.locate(problem.path))
        for problem in problems
    ]


def _sockets() -> int:
    """CPU sockets of this machine; 1 where it does not say."""
    packages = Path("/sys/devices/system/cpu").glob("cpu[0-9]*/topology/physical_package_id")
    return len({package.read_text() for package in packages}) or 1

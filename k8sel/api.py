"""The library's steps: load, check, plan, render. Opens no file, reaches no network; imports no client library."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from k8sel import planner, validate
from k8sel.defaults import default
from k8sel.errors import Kind, Problem, SpecError
from k8sel.load import Job, load, locate
from k8sel.plan import JobPlan
from k8sel.rules.devices import AUTO
from k8sel.spec import JobFile
from k8sel.targets import TARGETS, configmap

__all__ = ["Job", "check", "load", "plan", "render"]


def check(job: Job, door: str = "kubernetes", *, namespace_policy: str = "privileged") -> list[Problem]:
    """The warnings for ``job``. Raises SpecError with every problem of it.

    ``namespace_policy``: the Pod Security level that its namespace enforces.
    """
    file = _defaulted(_settled(job.file, door, None)[0], door)
    _stop([*_refused(file, door), *validate.namespace_policy(file, namespace_policy)], job)
    return list(plan(job, door).warnings)


def plan(job: Job, door: str = "kubernetes", *, nodes: int | None = None) -> JobPlan:
    """``job`` decided for ``door``: kubernetes, docker or run; ``nodes`` instead of its own number.

    Raises SpecError with every problem of it.
    """
    settled, notes = _settled(job.file, door, nodes)
    file = _defaulted(settled, door)
    refused = _refused(file, door)
    _stop([*notes, *refused] if refused else [], job)
    job_plan = planner.plan(file, sha256=job.sha256, door=door)
    warnings = [problem for problem in validate.validate(file, door) if problem.kind is Kind.WARNING]
    return replace(job_plan, warnings=tuple(locate(job.document, [*notes, *warnings, *job_plan.warnings])))


def render(job_plan: JobPlan) -> list[dict[str, Any]]:
    """The plan's Kubernetes objects, in the order in which they are to be applied."""
    if job_plan.entrypoint_mode != "configMap":
        return [TARGETS[job_plan.target](job_plan, None)]
    brought = configmap.emit(job_plan)
    return [brought, TARGETS[job_plan.target](job_plan, brought["metadata"]["name"])]


def _settled(file: JobFile, door: str, nodes: int | None) -> tuple[JobFile, list[Problem]]:
    """``file`` with what the door's options and this machine say in its place, and what is to be said of that."""
    spec, notes = file.spec if nodes is None else replace(file.spec, nodes=nodes), []
    if door == "run" and spec.accelerator.type == AUTO:
        from k8sel import here

        name, why = here.accelerator()
        spec = replace(spec, accelerator=replace(spec.accelerator, type=name))
        path = ("spec", "accelerator", "type")
        notes.append(Problem(kind=Kind.NOTE, path=path, message=f"{AUTO} is {name} on this machine: {why}"))
    return replace(file, spec=spec), notes


def _defaulted(file: JobFile, door: str) -> JobFile:
    if door == "kubernetes":  # looks at no machine
        return default(file, door)
    from k8sel import here

    return default(file, door, sockets=here.sockets(), numa_nodes=here.numa_nodes())


def _refused(file: JobFile, door: str) -> list[Problem]:
    found = validate.errors(validate.validate(file, door))
    nodes = file.spec.nodes or 1
    if door == "run" and nodes > 1:
        message = f"this machine is one node, and the job waits for {nodes}"
        hint = "--nodes 1 runs one node's processes here"
        found.append(Problem(kind=Kind.INVALID, path=("spec", "nodes"), message=message, hint=hint))
    return found


def _stop(problems: list[Problem], job: Job) -> None:
    if problems:
        raise SpecError(locate(job.document, problems))

"""The library's steps: load, check, plan, render. Opens no file, reaches no network; imports no client library."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from k8sel.emit import TARGETS, configmap
from k8sel.errors import Kind, Problem, SpecError
from k8sel.jobfile import validate
from k8sel.jobfile.defaults import default
from k8sel.jobfile.load import Job, load, locate
from k8sel.jobfile.rules.devices import AUTO
from k8sel.jobfile.spec import JobFile
from k8sel.planning import planner
from k8sel.planning.plan import JobPlan

__all__ = ["Job", "check", "load", "plan", "render"]


def check(job: Job, door: str = "kubernetes", *, namespace_policy: str = "privileged") -> list[Problem]:
    """The warnings for ``job``. Raises SpecError with every problem of it.

    ``namespace_policy``: the Pod Security level that its namespace enforces.
    """
    examined = _examine(job, door, None)
    _stop([*examined.errors, *validate.namespace_policy(examined.file, namespace_policy)], job)
    return list(_plan(examined, job, door).warnings)


def plan(job: Job, door: str = "kubernetes", *, nodes: int | None = None) -> JobPlan:
    """``job`` decided for ``door``: kubernetes, docker or run; ``nodes`` instead of its own number.

    Raises SpecError with every problem of it.
    """
    examined = _examine(job, door, nodes)
    _stop([*examined.notes, *examined.errors] if examined.errors else [], job)
    return _plan(examined, job, door)


def render(job_plan: JobPlan) -> list[dict[str, Any]]:
    """The plan's Kubernetes objects, in the order in which they are to be applied."""
    if job_plan.entrypoint_mode != "configMap":
        return [TARGETS[job_plan.target](job_plan, None)]
    brought = configmap.emit(job_plan)
    return [brought, TARGETS[job_plan.target](job_plan, brought["metadata"]["name"])]


class _Examined(Struct, frozen=True, kw_only=True):
    """A job as it would start, with what the rules find in it."""

    file: JobFile  # defaulted
    notes: list[Problem]
    errors: list[Problem]
    warnings: list[Problem]


def _examine(job: Job, door: str, nodes: int | None) -> _Examined:
    """Settles and defaults ``job``, and runs the rules once."""
    settled, notes = _settled(job.file, door, nodes)
    file = _defaulted(settled, door)
    found = validate.validate(file, door)
    errors = [*validate.errors(found), *_one_node(file, door)]
    return _Examined(file=file, notes=notes, errors=errors, warnings=validate.warnings(found))


def _plan(examined: _Examined, job: Job, door: str) -> JobPlan:
    job_plan = planner.plan(examined.file, sha256=job.sha256, door=door)
    problems = [*examined.notes, *examined.warnings, *job_plan.warnings]
    return replace(job_plan, warnings=tuple(locate(job.document, problems)))


def _settled(file: JobFile, door: str, nodes: int | None) -> tuple[JobFile, list[Problem]]:
    """``file`` with what the door's options and this machine say in its place, and what is to be said of that."""
    spec, notes = file.spec if nodes is None else replace(file.spec, nodes=nodes), []
    if door == "run" and spec.accelerator.type == AUTO:
        from k8sel.machine import hardware

        name, why = hardware.accelerator()
        spec = replace(spec, accelerator=replace(spec.accelerator, type=name))
        path = ("spec", "accelerator", "type")
        notes.append(Problem(kind=Kind.NOTE, path=path, message=f"{AUTO} is {name} on this machine: {why}"))
    return replace(file, spec=spec), notes


def _defaulted(file: JobFile, door: str) -> JobFile:
    if door == "kubernetes":  # looks at no machine
        return default(file, door)
    from k8sel.machine import hardware

    return default(file, door, sockets=hardware.sockets(), numa_nodes=hardware.numa_nodes())


def _one_node(file: JobFile, door: str) -> list[Problem]:
    """Refuses more than one node where the job runs as processes of this machine."""
    nodes = file.spec.nodes or 1
    if door != "run" or nodes <= 1:
        return []
    message = f"this machine is one node, and the job waits for {nodes}"
    hint = "--nodes 1 runs one node's processes here"
    return [Problem(kind=Kind.INVALID, path=("spec", "nodes"), message=message, hint=hint)]


def _stop(problems: list[Problem], job: Job) -> None:
    if problems:
        raise SpecError(locate(job.document, problems))

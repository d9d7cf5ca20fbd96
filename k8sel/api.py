"""The library: loads, checks, plans and renders jobs. ``import k8sel`` offers ``__all__`` (see docs/library.md).

Only ``load`` opens a file. This module uses no network and imports no client library.
"""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from k8sel.emit import TARGETS, configmap
from k8sel.errors import Kind, Problem, SpecError
from k8sel.facts.kinds import JOB_KINDS
from k8sel.facts.platforms import PLATFORMS, Platform
from k8sel.jobfile import canonical, validate
from k8sel.jobfile import load as loading
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.defaults import default
from k8sel.jobfile.limits import MAX_BYTES
from k8sel.jobfile.load import Job, locate
from k8sel.jobfile.rules.devices import AUTO
from k8sel.jobfile.spec import JobFile
from k8sel.planning import planner
from k8sel.planning.plan import JobPlan
from k8sel.wording import did_you_mean, invalid, not_supported

__all__ = ["Job", "JobPlan", "Problem", "SpecError", "check", "load", "plan", "render"]


def load(source: str | PathLike[str] | bytes | Mapping[str, Any], name: str = "<text>") -> tuple[Job, ...]:
    """Returns the jobs of ``source``, at least one, in its order.

    ``source`` is the path of a job file, its text as bytes, or one job as a mapping. ``name`` is the file name that a
    text's problems start with. Problems of a mapping have no file, line or column.

    Raises SpecError with every problem of the fields; OSError if the file cannot be read; TypeError or ValueError for a
    mapping's value that JSON does not have.
    """
    if isinstance(source, bytes):
        return loading.load(source, name)
    if isinstance(source, Mapping):
        return loading.load_data(source)
    with Path(source).open("rb") as file:
        return loading.load(file.read(MAX_BYTES + 1), fspath(source))  # no more than shows that it is too large


def check(job: Job, platform: str = "kubernetes", *, namespace_policy: str = "privileged") -> list[Problem]:
    """Returns the warnings for ``job`` on ``platform``: kubernetes, docker or run.

    ``namespace_policy`` is the Pod Security level that the job's namespace enforces: privileged, baseline or
    restricted. Raises SpecError with every problem of the job.
    """
    on = _platform(platform, None)
    examined = _examine(job, on, None)
    _stop([*examined.errors, *validate.namespace_policy(examined.file, namespace_policy)], job)
    return list(_plan(examined, job, on).warnings)


def plan(job: Job, platform: str = "kubernetes", *, nodes: int | None = None) -> JobPlan:
    """Returns every decision for ``job`` on ``platform``: kubernetes, docker or run.

    ``nodes`` replaces the job's own number of nodes. The platforms docker and run read this machine's hardware;
    kubernetes reads only the job. Raises SpecError with every problem of the job.
    """
    on = _platform(platform, nodes)
    examined = _examine(job, on, nodes)
    _stop([*examined.notes, *examined.errors] if examined.errors else [], job)
    return _plan(examined, job, on)


def render(job_plan: JobPlan) -> list[dict[str, Any]]:
    """Returns the Kubernetes objects of a plan made for kubernetes, in the order in which to apply them."""
    if job_plan.entrypoint_mode != "configMap":
        return [TARGETS[job_plan.target](job_plan, None)]
    config_map = configmap.emit(job_plan)
    return [config_map, TARGETS[job_plan.target](job_plan, config_map["metadata"]["name"])]


def _platform(name: str, nodes: int | None) -> Platform:
    """Returns the platform of that name; refuses an argument that no job can have."""
    if name not in PLATFORMS:
        raise SpecError([not_supported(("platform",), name, PLATFORMS, did_you_mean(name, PLATFORMS))])
    if nodes is not None and nodes < 1:
        raise SpecError([invalid(("nodes",), f"a job has at least one node, not {nodes}")])
    return PLATFORMS[name]


class _Examined(Struct, frozen=True, kw_only=True):
    """A job with its defaults, and the problems that the rules find in it."""

    file: CompleteJob
    notes: list[Problem]
    errors: list[Problem]
    warnings: list[Problem]


def _examine(job: Job, platform: Platform, nodes: int | None) -> _Examined:
    """Resolves and defaults ``job``, and runs the rules once."""
    resolved, notes = _resolve(job.file, platform, nodes)
    file = _defaulted(resolved, platform)
    found = validate.validate(file, platform)
    errors = [*validate.errors(found), *_one_node(file, platform)]
    return _Examined(file=file, notes=notes, errors=errors, warnings=validate.warnings(found))


def _plan(examined: _Examined, job: Job, platform: Platform) -> JobPlan:
    digest = canonical.sha256_of_pods(job.document.data, JOB_KINDS[examined.file.spec.target])
    job_plan = planner.plan(examined.file, sha256=digest, platform=platform)
    problems = [*examined.notes, *examined.warnings, *job_plan.warnings]
    return replace(job_plan, warnings=tuple(locate(job.document, problems)))


def _resolve(file: JobFile, platform: Platform, nodes: int | None) -> tuple[JobFile, list[Problem]]:
    """Returns ``file`` with the option's number of nodes and this machine's type of device, and notes about them."""
    spec, notes = file.spec if nodes is None else replace(file.spec, nodes=nodes), []
    if not platform.in_container and spec.accelerator.type == AUTO:
        from k8sel.machine import hardware

        name, why = hardware.accelerator()
        spec = replace(spec, accelerator=replace(spec.accelerator, type=name))
        path = ("spec", "accelerator", "type")
        notes.append(Problem(kind=Kind.NOTE, path=path, message=f"{AUTO} is {name} on this machine: {why}"))
    return replace(file, spec=spec), notes


def _defaulted(file: JobFile, platform: Platform) -> CompleteJob:
    if not platform.knows_machine:
        return default(file, platform)
    from k8sel.machine import hardware

    return default(file, platform, sockets=hardware.sockets(), numa_nodes=hardware.numa_nodes())


def _one_node(file: CompleteJob, platform: Platform) -> list[Problem]:
    """Refuses several nodes where the job runs as processes of this machine."""
    nodes = file.spec.nodes
    if platform.several_nodes or nodes <= 1:
        return []
    message = f"this machine is one node, but the job has {nodes} nodes"
    hint = "use --nodes 1 to run one node's processes here"
    return [Problem(kind=Kind.INVALID, path=("spec", "nodes"), message=message, hint=hint)]


def _stop(problems: list[Problem], job: Job) -> None:
    if problems:
        raise SpecError(locate(job.document, problems))

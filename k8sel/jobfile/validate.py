"""Runs all rules. Validation reads a defaulted job and returns its problems; it changes nothing.

A warning is a problem of kind WARNING and does not stop a job.
"""

from __future__ import annotations

from k8sel.errors import Kind, Problem, SpecError
from k8sel.facts.platforms import KUBERNETES, Platform
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.rules import backend, conflicts, devices, env, launch, names, pod, shapes, surprises
from k8sel.jobfile.rules.common import Rule
from k8sel.wording import not_supported

_MODULES = (devices, conflicts, launch, backend, names, env, pod, shapes, surprises)
RULES: tuple[Rule, ...] = tuple(rule for module in _MODULES for rule in module.RULES)


def validate(job: CompleteJob, platform: Platform = KUBERNETES) -> list[Problem]:
    """Returns the errors and warnings of a defaulted ``job`` on ``platform``."""
    return [problem for rule in RULES + _rules_of(platform) for problem in rule(job, platform)]


def _rules_of(platform: Platform) -> tuple[Rule, ...]:
    if not platform.exposes:
        return ()
    from k8sel.jobfile.rules import docker  # only `k8sel docker` waits for this import

    return docker.RULES


def namespace_policy(job: CompleteJob, level: str) -> list[Problem]:
    """Returns what a namespace of the Pod Security ``level`` refuses of a defaulted ``job``.

    ``level`` is restricted, baseline or privileged.
    """
    from k8sel.jobfile.rules import namespace  # most commands check no namespace

    if level not in namespace.LEVELS:
        raise SpecError([not_supported((), level, namespace.LEVELS, "--namespace-policy restricted")])
    return [problem for check in namespace.LEVELS[level] for problem in check(job)]


def errors(problems: list[Problem]) -> list[Problem]:
    """Returns the problems that stop a job."""
    return [problem for problem in problems if problem.kind is not Kind.WARNING]


def warnings(problems: list[Problem]) -> list[Problem]:
    """Returns the problems that do not stop a job."""
    return [problem for problem in problems if problem.kind is Kind.WARNING]

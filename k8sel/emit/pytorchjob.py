"""Turns a JobPlan into a PyTorchJob of kubeflow.org/v1 (the training-operator)."""

from __future__ import annotations

from typing import Any

from k8sel.emit import podspec
from k8sel.facts.launchers import LAUNCHERS
from k8sel.planning import env
from k8sel.planning.plan import JobPlan

CONTAINER = "pytorch"  # the operator requires this name


def emit(plan: JobPlan, config_map: str | None) -> dict[str, Any]:
    """The job's object; ``config_map``: the name of the entrypoint's ConfigMap."""
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": podspec.metadata(plan),
        "spec": {
            "nprocPerNode": "1" if LAUNCHERS[plan.launcher].starts_one else str(plan.processes_per_node),
            "runPolicy": podspec.run_policy(plan, len(plan.nodes)),
            "pytorchReplicaSpecs": _replicas(plan, config_map),
        },
    }


def _replicas(plan: JobPlan, config_map: str | None) -> dict[str, Any]:
    """The replicas: one Master, and Workers for the other nodes."""
    others = len(plan.nodes) - 1
    replicas = {"Master": _replica(plan, 1, config_map)}
    return replicas | {"Worker": _replica(plan, others, config_map)} if others else replicas


def _replica(plan: JobPlan, number: int, config_map: str | None) -> dict[str, Any]:
    variables = env.merge(plan.env, podspec.expectation(plan))
    program = podspec.Program(container=CONTAINER, command=plan.command, env=variables)
    container = podspec.container(plan, program, plan.container, config_map)
    return {
        "replicas": number,
        "restartPolicy": "ExitCode" if plan.backoff_limit else "Never",  # ExitCode: only 128 and above
        "template": podspec.template(plan, plan.pod, container, config_map),
    }

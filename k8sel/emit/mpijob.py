"""Turns a JobPlan into an MPIJob of kubeflow.org/v2beta1 (the mpi-operator)."""

from __future__ import annotations

from typing import Any

from k8sel.emit import podspec
from k8sel.planning import env
from k8sel.planning.plan import JobPlan, MpiPlan

LAUNCHER = "launcher"
WORKER = "worker"


def emit(plan: JobPlan, config_map: str | None) -> dict[str, Any]:
    """The job's object; ``config_map``: the name of the entrypoint's ConfigMap."""
    mpi = _mpi(plan)
    return {
        "apiVersion": "kubeflow.org/v2beta1",
        "kind": "MPIJob",
        "metadata": podspec.metadata(plan),
        "spec": {
            "slotsPerWorker": mpi.slots_per_worker,
            "runPolicy": podspec.run_policy(plan, len(plan.nodes)),
            "sshAuthMountPath": mpi.ssh_auth_mount_path,
            "launcherCreationPolicy": "WaitForWorkersReady",
            "mpiImplementation": mpi.implementation,
            "mpiReplicaSpecs": {
                "Launcher": _launcher(plan, mpi, config_map),
                "Worker": _worker(plan, mpi, config_map),
            },
        },
    }


def _mpi(plan: JobPlan) -> MpiPlan:
    if plan.mpi is None:
        raise ValueError(f"{plan.name} is planned for {plan.launcher}, which has no MPI")
    return plan.mpi


def _launcher(plan: JobPlan, mpi: MpiPlan, config_map: str | None) -> dict[str, Any]:
    """The launcher runs mpirun. Its variables hide all devices: the image's defaults would show them all."""
    variables = env.merge(plan.env, env.constants(plan.devices.hide_env), podspec.expectation(plan))
    program = podspec.Program(container=LAUNCHER, command=plan.command, env=variables)
    container = podspec.container(plan, program, mpi.launcher_container, config_map)
    return _replica(1, podspec.template(plan, mpi.launcher_pod, container, config_map))


def _worker(plan: JobPlan, mpi: MpiPlan, config_map: str | None) -> dict[str, Any]:
    """The worker runs sshd. A rank gets its variables from mpirun's command, not from this container."""
    program = podspec.Program(container=WORKER, command=mpi.sshd, env=plan.env, ready_port=mpi.ssh_port)
    container = podspec.container(plan, program, plan.container, config_map)
    return _replica(len(plan.nodes), podspec.template(plan, plan.pod, container, config_map))


def _replica(number: int, template: dict[str, Any]) -> dict[str, Any]:
    return {"replicas": number, "restartPolicy": "Never", "template": template}

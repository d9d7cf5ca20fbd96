"""JobFile to JobFile with everything optional filled in. Knows no rule: a wrong file stays wrong."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec.structs import replace

from k8sel.facts import backends
from k8sel.facts.accelerators import ROWS
from k8sel.facts.launchers import LAUNCHERS
from k8sel.facts.platforms import KUBERNETES, Platform
from k8sel.jobfile.spec import Accelerator, Ccl, Cpu, Entrypoint, JobFile, Mpi, MpiName, Policy, Scheduling, Spec

T = TypeVar("T")

MPI: MpiName = "OpenMPI"
SSH_PORT = 2222
CCL_WORKERS = 1  # oneCCL's own default
ROOT_SSH = "/root/.ssh"
USER_SSH = "/home/mpiuser/.ssh"
# mpi-operator writes the name of the gang's scheduler itself.
GANG_SCHEDULERS = {None: None, "volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}


def default(job: JobFile, platform: Platform = KUBERNETES, *, sockets: int = 1, numa_nodes: int = 1) -> JobFile:
    """``job`` with nothing left open that a default decides; a second time changes nothing.

    ``sockets`` and ``numa_nodes``: of this machine, for the platforms that know it.
    """
    spec = job.spec
    accelerator, backend = _accelerator(spec.accelerator), _backend(spec)
    by_parts = platform.knows_machine and _by_parts(spec, accelerator)
    parts = {"socket": sockets, "numa": numa_nodes}[spec.cpu.process_per or "socket"] if by_parts else 1
    return replace(
        job,
        spec=replace(
            spec,
            target=_given(spec.target, LAUNCHERS[spec.launcher].targets[0]),
            nodes=_given(spec.nodes, 1),
            processes_per_node=_given(spec.processes_per_node, _processes(spec, accelerator, parts)),
            accelerator=accelerator,
            backend=backend,
            ccl=_ccl(spec.ccl, backend),
            cpu=_counted(spec.cpu) if by_parts else spec.cpu,
            mpi=_mpi(spec) if LAUNCHERS[spec.launcher].uses_mpi else spec.mpi,
            scheduling=spec.scheduling if LAUNCHERS[spec.launcher].uses_mpi else _scheduling(spec.scheduling),
            policy=_policy(spec.policy),
            entrypoint=_entrypoint(spec.entrypoint),
        ),
    )


def is_root(spec: Spec) -> bool:
    """Whether the containers run as root, as far as the file says."""
    user: Any = {**spec.pod_security_context, **spec.security_context}
    return not user.get("runAsNonRoot", False) and user.get("runAsUser", 0) == 0


def _accelerator(accelerator: Accelerator) -> Accelerator:
    count, devices = _devices(accelerator)
    return replace(
        accelerator,
        count=count,
        devices=devices,
        order=_given(accelerator.order, "pci"),
        allocation=_given(accelerator.allocation, "devicePlugin"),
        isolation=_given(accelerator.isolation, "node"),
    )


def _devices(accelerator: Accelerator) -> tuple[int, tuple[int, ...]]:
    count, devices = accelerator.count, accelerator.devices
    row = ROWS.get(accelerator.type)
    if devices is None:
        count = _given(count, 1 if row is None or row.is_device or not row.in_container else 0)
        return count, tuple(range(count))
    return _given(count, max(devices, default=-1) + 1), devices


def _by_parts(spec: Spec, accelerator: Accelerator) -> bool:
    """Whether nothing but the parts of a machine says how many processes a node has."""
    return spec.processes_per_node is None and LAUNCHERS[spec.launcher].per_device and not accelerator.devices


def _processes(spec: Spec, accelerator: Accelerator, parts: int) -> int:
    return len(accelerator.devices or ()) or parts if LAUNCHERS[spec.launcher].per_device else 1


def _counted(cpu: Cpu) -> Cpu:
    """``cpu`` without what processesPerNode says from now on: where the word stays, it decided nothing."""
    return replace(cpu, process_per=None)


def _backend(spec: Spec) -> str | None:
    """What the file says, or else the command; a word of the command's that is in no table says nothing."""
    _, name = backends.named(spec.command) or (0, "")
    return _given(spec.backend, name if name in backends.BACKENDS else None)


def _ccl(ccl: Ccl, backend: str | None) -> Ccl:
    return replace(ccl, workers=_given(ccl.workers, CCL_WORKERS)) if backends.uses_oneccl(backend) else ccl


def _mpi(spec: Spec) -> Mpi:
    return replace(
        spec.mpi,
        implementation=_given(spec.mpi.implementation, MPI),
        ssh_port=_given(spec.mpi.ssh_port, SSH_PORT),
        ssh_auth_mount_path=_given(spec.mpi.ssh_auth_mount_path, ROOT_SSH if is_root(spec) else USER_SSH),
    )


def _scheduling(scheduling: Scheduling) -> Scheduling:
    return replace(scheduling, scheduler_name=_given(scheduling.scheduler_name, GANG_SCHEDULERS.get(scheduling.gang)))


def _policy(policy: Policy) -> Policy:
    return replace(
        policy,
        max_restarts=_given(policy.max_restarts, 0),
        backoff_limit=_given(policy.backoff_limit, 0),
        clean_pod_policy=_given(policy.clean_pod_policy, "Running"),
    )


def _entrypoint(entrypoint: Entrypoint) -> Entrypoint:
    """Nothing checks without the entrypoint, so where there is none only a check that the file asks for is one."""
    check = "off" if entrypoint.mode == "none" else "enforce"
    return replace(entrypoint, mode=_given(entrypoint.mode, "configMap"), check=_given(entrypoint.check, check))


def _given(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value

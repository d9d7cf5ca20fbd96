"""Fills in every default: a JobFile becomes a CompleteJob. Applies no rule: a wrong file stays wrong."""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import Struct
from msgspec.structs import asdict, replace

from k8sel.entrypoint import masks
from k8sel.facts import backends
from k8sel.facts.accelerators import ROWS
from k8sel.facts.launchers import LAUNCHERS
from k8sel.facts.platforms import KUBERNETES, Platform
from k8sel.jobfile.complete import (
    CompleteAccelerator,
    CompleteEntrypoint,
    CompleteJob,
    CompleteMpi,
    CompletePolicy,
    CompleteSpec,
)
from k8sel.jobfile.spec import (
    CCL_WORKERS,
    MPI,
    SSH_PORT,
    Accelerator,
    Ccl,
    Entrypoint,
    JobFile,
    Mpi,
    Scheduling,
    Spec,
)

T = TypeVar("T")
Complete = TypeVar("Complete", bound=Struct)

ROOT_SSH = "/root/.ssh"
USER_SSH = "/home/mpiuser/.ssh"
# mpi-operator sets the gang's schedulerName itself.
GANG_SCHEDULERS = {None: None, "volcano": "volcano", "coscheduling": "scheduler-plugins-scheduler"}


def default(job: JobFile, platform: Platform = KUBERNETES, *, sockets: int = 1, numa_nodes: int = 1) -> CompleteJob:
    """Returns ``job`` with every default filled in; returns a complete job unchanged.

    ``sockets`` and ``numa_nodes`` count this machine's parts, for platforms that know the machine.
    """
    if isinstance(job, CompleteJob):
        return job
    spec = job.spec
    accelerator, backend = _accelerator(spec.accelerator), _backend(spec)
    by_parts = platform.knows_machine and _by_parts(spec, accelerator)
    parts = {"socket": sockets, "numa": numa_nodes}[spec.cpu.process_per or "socket"] if by_parts else 1
    complete = _complete(
        CompleteSpec,
        spec,
        target=_given(spec.target, LAUNCHERS[spec.launcher].targets[0]),
        processes_per_node=_given(spec.processes_per_node, _processes(spec, accelerator, parts)),
        accelerator=accelerator,
        backend=backend,
        ccl=_ccl(spec.ccl, backend),
        cpu=replace(spec.cpu, process_per=None) if by_parts else spec.cpu,
        mpi=_mpi(spec),
        mpi_given=spec.mpi != Mpi(),
        scheduling=spec.scheduling if LAUNCHERS[spec.launcher].uses_mpi else _scheduling(spec.scheduling),
        policy=_complete(CompletePolicy, spec.policy),
        entrypoint=_entrypoint(spec.entrypoint),
    )
    return _complete(CompleteJob, job, spec=complete)


def _complete(kind: type[Complete], part: Struct, **computed: object) -> Complete:
    """Returns ``part`` as the complete ``kind``, with its fields' constant defaults and the ``computed`` values."""
    defaults = dict(zip(reversed(part.__struct_fields__), reversed(part.__struct_defaults__), strict=False))
    filled = {name: defaults[name] if value is None else value for name, value in asdict(part).items()}
    complete: Any = kind
    made: Complete = complete(**{**filled, **computed})
    return made


def is_root(spec: Spec) -> bool:
    """Reports whether the file lets the containers run as root."""
    user: Any = {**spec.pod_security_context, **spec.security_context}
    return not user.get("runAsNonRoot", False) and user.get("runAsUser", 0) == 0


def _accelerator(accelerator: Accelerator) -> CompleteAccelerator:
    count, devices = _devices(accelerator)
    row = ROWS.get(accelerator.type)
    zero = accelerator.count == 0 and accelerator.devices is None and row is not None and row.is_device
    return _complete(CompleteAccelerator, accelerator, count=count, devices=devices, zero=zero)


def _devices(accelerator: Accelerator) -> tuple[int, tuple[int, ...]]:
    count, devices = accelerator.count, accelerator.devices
    if devices is not None:
        return _given(count, masks.needed(devices)), devices
    row = ROWS.get(accelerator.type)
    count = _given(count, masks.default_count(row.at_start if row else None))
    return count, tuple(range(count))


def _by_parts(spec: Spec, accelerator: CompleteAccelerator) -> bool:
    """Reports whether only the machine's parts determine the number of processes of a node."""
    return spec.processes_per_node is None and LAUNCHERS[spec.launcher].per_device and not accelerator.devices


def _processes(spec: Spec, accelerator: CompleteAccelerator, parts: int) -> int:
    return len(accelerator.devices) or parts if LAUNCHERS[spec.launcher].per_device else 1


def _backend(spec: Spec) -> str | None:
    """Returns the file's backend, else the backend that the command names if the table lists it."""
    _, name = backends.named(spec.command) or (0, "")
    return _given(spec.backend, name if name in backends.BACKENDS else None)


def _ccl(ccl: Ccl, backend: str | None) -> Ccl:
    return replace(ccl, workers=_given(ccl.workers, CCL_WORKERS)) if backends.uses_oneccl(backend) else ccl


def _mpi(spec: Spec) -> CompleteMpi:
    return _complete(
        CompleteMpi,
        spec.mpi,
        implementation=_given(spec.mpi.implementation, MPI),
        ssh_port=_given(spec.mpi.ssh_port, SSH_PORT),
        ssh_auth_mount_path=_given(spec.mpi.ssh_auth_mount_path, ROOT_SSH if is_root(spec) else USER_SSH),
    )


def _scheduling(scheduling: Scheduling) -> Scheduling:
    return replace(scheduling, scheduler_name=_given(scheduling.scheduler_name, GANG_SCHEDULERS.get(scheduling.gang)))


def _entrypoint(entrypoint: Entrypoint) -> CompleteEntrypoint:
    """Turns the check off by default where the job has no entrypoint.

    A check that the file sets stays, and a rule refuses it.
    """
    check = "off" if entrypoint.mode == "none" else "enforce"
    return _complete(CompleteEntrypoint, entrypoint, check=_given(entrypoint.check, check))


def _given(value: T | None, otherwise: T) -> T:
    return otherwise if value is None else value

"""Makes every decision once: a valid, defaulted job file and the table's rows become a JobPlan.

No I/O, no clock, no randomness, no vendor names.
"""

from __future__ import annotations

from k8sel.entrypoint.protocol import Expectation
from k8sel.facts import names
from k8sel.facts.kinds import JOB_KINDS, JobKind
from k8sel.facts.launchers import LAUNCHERS
from k8sel.facts.platforms import KUBERNETES, Platform
from k8sel.jobfile import oneccl
from k8sel.jobfile.complete import CompleteJob, CompleteSpec
from k8sel.jobfile.quantity import whole
from k8sel.planning import advice, devices, env, launch, mpi, pod
from k8sel.planning.plan import Devices, Fragment, JobPlan, Node


def plan(job: CompleteJob, *, sha256: str, platform: Platform = KUBERNETES) -> JobPlan:
    """Returns the plan of ``job``, which must be valid and defaulted for the same ``platform``."""
    spec, name = job.spec, job.metadata.name
    chosen = devices.plan(spec.accelerator, platform)
    started = launch.launch(spec, platform, _fixed_env(spec, chosen))
    gate = "gate" if LAUNCHERS[spec.launcher].uses_mpi and platform.over_ssh else ""
    return JobPlan(
        name=name,
        namespace=job.metadata.namespace,
        labels=_labels(job),
        annotations={**job.metadata.annotations, names.ANNOTATION_JOB_FILE: sha256},
        target=spec.target,
        launcher=spec.launcher,
        image=spec.image or "",
        nodes=_nodes(spec, name, chosen, platform),
        processes_per_node=spec.processes_per_node,
        devices=chosen,
        expectation=_expectation(job, chosen, sha256, platform),
        entrypoint_mode=spec.entrypoint.mode,
        launch=started,
        command=launch.before(spec, platform, gate) + started,
        env=_env(spec, name, chosen, platform),
        oneccl=tuple(oneccl.variables(spec)),
        mpi=mpi.plan(spec, chosen) if LAUNCHERS[spec.launcher].uses_mpi else None,
        pod=pod.pod(spec, chosen),
        container=pod.container(spec, chosen, mpi.capabilities(spec)),
        shared_memory=pod.quantity(spec.shared_memory),
        queue=spec.scheduling.queue,
        priority_class_name=spec.scheduling.priority_class_name,
        gang=spec.scheduling.gang,
        scheduler_name=spec.scheduling.scheduler_name,
        max_restarts=spec.policy.max_restarts,
        backoff_limit=spec.policy.backoff_limit,
        active_deadline_seconds=spec.policy.active_deadline_seconds,
        ttl_seconds_after_finished=spec.policy.ttl_seconds_after_finished,
        clean_pod_policy=spec.policy.clean_pod_policy,
        warnings=advice.warnings(spec, chosen, platform),
    )


def _labels(job: CompleteJob) -> dict[str, str]:
    own = {names.LABEL_MANAGED_BY: names.MANAGER, names.LABEL_JOB: job.metadata.name}
    return {**job.metadata.labels, **own}


def _nodes(spec: CompleteSpec, job: str, chosen: Devices, platform: Platform) -> tuple[Node, ...]:
    count, processes = spec.nodes, spec.processes_per_node
    called = ("localhost",) * count if not platform.in_container else JOB_KINDS[spec.target].nodes(job, count)
    isolation = spec.accelerator.isolation
    return tuple(
        Node(name=name, node_rank=index, ranks=devices.ranks(chosen, processes, isolation, index * processes))
        for index, name in enumerate(called)
    )


def _expectation(job: CompleteJob, chosen: Devices, sha256: str, platform: Platform) -> Expectation:
    spec = job.spec
    gated = LAUNCHERS[spec.launcher].uses_mpi and platform.over_ssh and spec.entrypoint.mode != "none"
    return Expectation(
        accelerator=chosen.type,
        devices=chosen.positions,
        count=devices.exactly(chosen, platform),
        order=spec.accelerator.order,
        product=chosen.product,
        memory=chosen.memory,
        # Without a container, /dev/shm is the machine's own.
        shared_memory=whole(spec.shared_memory) if platform.in_container else None,
        isolation=spec.accelerator.isolation,
        launcher=spec.launcher,
        mpi=spec.mpi.implementation if LAUNCHERS[spec.launcher].uses_mpi else "",
        backend=spec.backend or "",
        nodes=spec.nodes,
        processes_per_node=spec.processes_per_node,
        threads_per_process=spec.cpu.threads_per_process,
        check=spec.entrypoint.check,
        job=job.metadata.name,
        job_file=sha256,
        probe=mpi.probe(spec, launch.entry(spec, platform, "check")) if gated else (),
        hostfile=mpi.hostfile(spec) if gated else "",
        rank_command=len(spec.command) if launch.starts_mode_rank(spec, platform) else 0,
    )


def _fixed_env(spec: CompleteSpec, chosen: Devices) -> dict[str, str]:
    """Returns masks and thread counts that are fixed at plan time: no entrypoint runs, or the job uses no device."""
    bare = spec.entrypoint.mode == "none"
    threads = {"OMP_NUM_THREADS": str(spec.cpu.threads_per_process)} if bare and spec.cpu.threads_per_process else {}
    return {**chosen.mask_env, **threads} if bare or not chosen.positions else {}


def _env(spec: CompleteSpec, job: str, chosen: Devices, platform: Platform) -> tuple[Fragment, ...]:
    constants = {**chosen.exposure_env, **_fixed_env(spec, chosen)}
    if LAUNCHERS[spec.launcher].uses_mpi:
        constants |= {"MASTER_ADDR": _master(job, JOB_KINDS[spec.target], platform), **mpi.CONSTANTS}
    if not chosen.positions:
        constants |= LAUNCHERS[spec.launcher].env_without_devices
    return env.merge(env.constants(constants | oneccl.variables(spec)), env.entries(spec.env))


def _master(job: str, kind: JobKind, platform: Platform) -> str:
    return "127.0.0.1" if not platform.over_ssh else f"{kind.nodes(job, 1)[0]}.{job}"

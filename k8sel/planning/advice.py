"""Warns of what a valid job wastes or risks. `k8sel plan` shows the warnings; they do not stop the job."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from msgspec import UNSET

from k8sel.entrypoint import masks
from k8sel.errors import FieldPath, Kind, Problem
from k8sel.facts import accelerators
from k8sel.facts.kinds import JOB_KINDS
from k8sel.facts.launchers import LAUNCHERS
from k8sel.facts.platforms import Platform
from k8sel.jobfile.complete import CompleteSpec
from k8sel.planning.env import of_its_pod
from k8sel.planning.plan import Devices

Rule = Callable[[CompleteSpec, Devices], Iterator[Problem]]


def warnings(spec: CompleteSpec, devices: Devices, platform: Platform) -> tuple[Problem, ...]:
    """Returns all warnings for a defaulted ``spec``."""
    in_container = CONTAINER_RULES if platform.in_container else ()
    rules = RULES + in_container + (() if platform.knows_machine else CLUSTER_RULES)
    return tuple(problem for rule in rules for problem in rule(spec, devices))


def _warning(path: FieldPath, message: str, hint: str) -> Problem:
    return Problem(kind=Kind.WARNING, path=("spec", *path), message=message, hint=hint)


def _idle_devices(spec: CompleteSpec, devices: Devices) -> Iterator[Problem]:
    idle = sorted(set(range(devices.count)) - set(devices.positions))
    if devices.resource_name and idle:
        yield _warning(
            ("accelerator", "devices"),
            f"each node requests {devices.count} devices, but leaves {', '.join(map(str, idle))} unused",
            "number the devices from 0 without gaps: a device plugin gives a number of devices, not chosen ones",
        )


def _idle_processes(spec: CompleteSpec, devices: Devices) -> Iterator[Problem]:
    processes, number = spec.processes_per_node, len(devices.positions)
    if LAUNCHERS[spec.launcher].per_device and processes < number and spec.accelerator.isolation == "node":
        yield _warning(
            ("processesPerNode",),
            f"only {processes} of the {number} devices of a node have a process",
            f"write processesPerNode: {number}, or isolation: process if one process drives several devices",
        )


def _through_torchrun(spec: CompleteSpec, devices: Devices) -> Iterator[Problem]:
    row = LAUNCHERS[spec.launcher]
    warning = row.warning if devices.positions else row.warning_without_devices
    if warning:
        yield _warning(("launcher",), *warning)


def _unchecked(spec: CompleteSpec, devices: Devices) -> Iterator[Problem]:
    if spec.entrypoint.mode == "none":
        yield _warning(
            ("entrypoint", "mode"),
            "no check runs, and the mask counts the devices as the container finds them",
            "write mode: configMap or mode: image",
        )
    elif spec.entrypoint.check == "off":
        yield _warning(("entrypoint", "check"), "no check runs before training", "write check: enforce or check: warn")


def _shared_memory(spec: CompleteSpec, devices: Devices) -> Iterator[Problem]:
    if spec.shared_memory is None and spec.processes_per_node > 1:
        yield _warning(
            ("sharedMemory",),
            f"{spec.processes_per_node} processes on a node share a /dev/shm of 64 MiB, the runtime's default",
            "write for example sharedMemory: 8Gi, which counts as memory",
        )


def _cpu_number(spec: CompleteSpec, devices: Devices) -> Iterator[Problem]:
    if not devices.positions and "cpu" not in spec.resources:
        yield _warning(
            ("resources",),
            "without resources.cpu, the job shares the node's CPUs with all other pods",
            'write for example resources: {cpu: "8"}',
        )


def _uncounted(spec: CompleteSpec, devices: Devices) -> Iterator[Problem]:
    if spec.accelerator.allocation == "host" and devices.positions:
        yield _warning(
            ("accelerator", "allocation"),
            "the scheduler does not count these devices, so another pod may get the same ones",
            "write allocation: devicePlugin, or use a node that runs nothing else",
        )


def _ungrouped(spec: CompleteSpec, devices: Devices) -> Iterator[Problem]:
    """Warns of devices that the vendor does not document as a group; the numbers are known if the file has them."""
    exposed = devices.exposed
    instead = masks.ungrouped(accelerators.by_name(devices.type).at_start, len(devices.positions), exposed)
    if instead:
        which = f"devices {', '.join(map(str, exposed))}" if exposed else f"{len(devices.positions)} devices on a node"
        message = f"{which} are not a group that the vendor documents"
        yield _warning(("accelerator", "devices"), message, f"use {instead}")


def _other_runtime(spec: CompleteSpec, devices: Devices) -> Iterator[Problem]:
    row = accelerators.by_name(devices.type)
    if devices.exposed and row.runtime_class and spec.runtime_class_name is None:
        yield _warning(
            ("runtimeClassName",),
            f"only the container runtime {row.runtime_class} reads {row.exposure_env}, "
            "and many clusters start pods with another one",
            f"write runtimeClassName: {row.runtime_class}",
        )


def _launchers_value(spec: CompleteSpec, devices: Devices) -> Iterator[Problem]:
    """Warns of an MPI job's variables that differ from pod to pod, where no entrypoint runs.

    Only the entrypoint reads them in each rank's own container.
    """
    alone = LAUNCHERS[spec.launcher].uses_mpi and spec.entrypoint.mode == "none"
    for number, variable in enumerate(spec.env if alone else ()):
        if variable.value_from is not UNSET and of_its_pod(variable):
            yield _warning(
                ("env", number, "valueFrom"),
                f"the ranks get the launcher's value of {variable.name}, not the value of their own pod",
                "write mode: configMap, or read the value in the program",
            )


def _retries(spec: CompleteSpec, devices: Devices) -> Iterator[Problem]:
    """Warns of ``backoffLimit``: an MPIJob retries after any failure, a PyTorchJob only after a status of 128 or more.

    training-operator's ExitCode and a batch Job's backoffLimit do not recognize a failed check.
    """
    if not spec.policy.backoff_limit:
        return
    path = ("policy", "backoffLimit")
    if JOB_KINDS[spec.target].retries_any_failure:
        yield _warning(path, "the launcher starts again after a failed check too", "write backoffLimit: 0")
        return
    final, way = (
        ("a Python error", "set launcher: torchrun and ")
        if LAUNCHERS[spec.launcher].starts_one
        else ("torchrun", "set ")
    )
    message = f"pods start again only after an exit status of 128 or more, but {final} ends with 1"
    yield _warning(path, message, f"{way}policy.maxRestarts, which restarts processes")


RULES: tuple[Rule, ...] = (_idle_devices, _idle_processes, _through_torchrun, _unchecked)
CONTAINER_RULES: tuple[Rule, ...] = (_shared_memory,)
CLUSTER_RULES: tuple[Rule, ...] = (_cpu_number, _uncounted, _ungrouped, _other_runtime, _launchers_value, _retries)

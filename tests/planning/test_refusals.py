"""Jobs that an API server would take and that could not work: refused before they are sent."""

from __future__ import annotations

from typing import Any

import pytest

from k8sel.errors import Kind, format_path
from k8sel.facts.platforms import PLATFORMS
from k8sel.jobfile.defaults import default
from k8sel.jobfile.rules.namespace import LEVELS
from k8sel.jobfile.validate import errors, namespace_policy, validate
from planning.jobs import job
from planning.levels import JOBS, loaded, refused_by

CUDA = {"type": "cuda"}
MPI = {"launcher": "mpirun"}
USER = {"podSecurityContext": {"runAsUser": 1000}}


def refused(platform: str = "kubernetes", **spec: object) -> list[str]:
    """The fields that are wrong in a job."""
    return [
        str(problem).split(": ")[0]
        for problem in errors(validate(default(job(CUDA, spec), PLATFORMS[platform]), PLATFORMS[platform]))
    ]


def warned(name: str, **spec: object) -> list[str]:
    """The fields that are warned of in a job called ``name``."""
    spec = {**spec, "sharedMemory": "1Gi"}
    named = job(CUDA, spec)
    renamed = default(type(named)(**{**_fields(named), "metadata": type(named.metadata)(name=name)}))
    return [str(problem).split(": ")[0] for problem in validate(renamed)]


def _fields(of: Any) -> dict[str, Any]:  # noqa: ANN401  # any struct
    return {name: getattr(of, name) for name in of.__struct_fields__}


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        (MPI, []),
        ({**MPI, **USER}, []),
        ({**MPI, "mpi": {"sshAuthMountPath": "/root/.ssh"}}, []),
        ({**MPI, "mpi": {"sshAuthMountPath": "/keys"}}, ["spec.mpi.sshAuthMountPath"]),
        ({**MPI, **USER, "mpi": {"sshAuthMountPath": "/keys"}}, []),
        ({**MPI, **USER, "mpi": {"sshAuthMountPath": "/root/.ssh"}}, ["spec.mpi.sshAuthMountPath"]),
        ({**MPI, "podSecurityContext": {"fsGroup": 1000}}, ["spec.podSecurityContext.fsGroup"]),
        ({**MPI, "podSecurityContext": {"fsGroup": 1000, "runAsUser": 1000}}, []),
        ({"podSecurityContext": {"fsGroup": 1000}}, []),
    ],
)
def test_ssh_can_read_its_keys(spec: dict[str, Any], fields: list[str]) -> None:
    assert refused(**spec) == fields


@pytest.mark.parametrize("name", ["my.name", "my-name", "a.b-c"])
def test_a_variable_gets_through_the_shell_in_front_of_the_program(name: str) -> None:
    env = [{"name": name, "value": "1"}]

    assert refused(env=env) == ["spec.env[0].name"]
    assert refused(env=env, **MPI, entrypoint={"mode": "image"}) == ["spec.env[0].name"]
    assert refused(env=env, entrypoint={"mode": "image"}) == []
    assert refused(env=env, entrypoint={"mode": "none"}) == []
    assert refused("run", env=env) == []


@pytest.mark.parametrize(
    ("check", "fields"),
    [
        ({}, []),
        ({"check": "off"}, []),
        ({"check": "warn"}, ["spec.entrypoint.check"]),
        ({"check": "enforce"}, ["spec.entrypoint.check"]),
    ],
)
def test_a_check_that_the_file_asks_for_needs_the_entrypoint(check: dict[str, str], fields: list[str]) -> None:
    assert refused(entrypoint={"mode": "none", **check}) == fields


@pytest.mark.parametrize("level", LEVELS)
def test_a_levels_verdict_is_known_without_a_cluster(level: str) -> None:
    jobs = {title: default(loaded(spec).file) for title, spec in JOBS.items()}

    assert {title for title, each in jobs.items() if namespace_policy(each, level)} == refused_by(level)
    assert {title for title, each in jobs.items() if errors(validate(each))} == set()


@pytest.mark.parametrize(
    ("name", "implementation", "fields"),
    [
        ("a" * 40, "OpenMPI", []),
        ("a" * 41, "OpenMPI", ["metadata.name"]),
        ("a1" + "a" * 50, "OpenMPI", []),
        ("a" * 41, "MPICH", []),
    ],
)
def test_open_mpi_is_not_given_long_names_without_a_digit(name: str, implementation: str, fields: list[str]) -> None:
    assert warned(name, **MPI, mpi={"implementation": implementation}) == fields


BIND = ["spec.mpi.binding"]


@pytest.mark.parametrize(
    ("implementation", "binding", "given", "fields"),
    [
        ("MPICH", "socket", {}, BIND),
        ("MPICH", "none", {}, []),
        ("MPICH", None, {}, []),
        ("Intel", "socket", {}, []),
        ("OpenMPI", "socket", {}, []),
        ("MPICH", "numa", {"securityContext": {"capabilities": {"add": ["SYS_NICE"]}}}, []),
        ("MPICH", "numa", {"securityContext": {"capabilities": {"add": ["ALL"]}}}, []),
        ("MPICH", "numa", {"securityContext": {"capabilities": {"drop": ["SYS_NICE"]}}}, BIND),
        ("MPICH", "numa", {"securityContext": {"privileged": True}}, []),
        ("MPICH", "numa", {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, []),
        ("MPICH", "numa", {"podSecurityContext": {"seccompProfile": {"type": "Localhost"}}}, []),
        ("MPICH", "numa", {"podSecurityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}, BIND),
    ],
)
def test_what_binds_memory_may_do_so_in_its_container(
    implementation: str, binding: str | None, given: dict[str, Any], fields: list[str]
) -> None:
    assert refused(**MPI, **given, mpi={"implementation": implementation, "binding": binding}) == fields


@pytest.mark.parametrize(("platform", "fields"), [("kubernetes", BIND), ("docker", BIND), ("run", [])])
def test_only_a_container_is_kept_from_binding_memory(platform: str, fields: list[str]) -> None:
    assert refused(platform, **MPI, nodes=1, mpi={"implementation": "MPICH", "binding": "socket"}) == fields


CPU = {"type": "cpu"}
CCL = {"launcher": "mpirun", "mpi": {"implementation": "Intel"}, "backend": "ccl", "processesPerNode": 2}


@pytest.mark.parametrize(
    ("accelerator", "spec", "fields"),
    [
        (CPU, {"backend": "mpi"}, []),  # one process alone needs no ranks
        (CPU, {"backend": "mpi", "nodes": 2}, ["spec.backend"]),
        (CPU, {"backend": "mpi", "launcher": "mpirun", "nodes": 2}, []),
        (CPU, {"backend": "ccl"}, []),
        (CPU, {"backend": "xccl"}, ["spec.backend"]),
        (CUDA, {"backend": "nccl"}, []),
        (CUDA, {"backend": "gloo"}, []),
        (CUDA, {"backend": "ccl"}, ["spec.backend"]),
        ({"type": "cuda", "devices": []}, {"backend": "ccl"}, []),
        ({"type": "cuda", "count": 0}, {"backend": "nccl"}, ["spec.backend"]),
        ({"type": "rocm"}, {"backend": "nccl"}, []),
        ({"type": "npu"}, {"backend": "hccl"}, []),
        ({"type": "xpu"}, {"backend": "mpi", "launcher": "mpirun"}, ["spec.backend"]),
        ({"type": "rocm"}, {"backend": "mpi", "launcher": "mpirun"}, []),
        ({"type": "xpu"}, {"backend": "gloo"}, []),  # tensors of the CPU
        ({"type": "neuron"}, {"backend": "neuron"}, []),
        (CUDA, {"backend": "neuron"}, ["spec.backend"]),
        (CPU, {"backend": "gloo", "command": ["a", "--ddp_backend=gloo"]}, []),
        (CPU, {"backend": "gloo", "command": ["a", "--ddp_backend=my_own"]}, ["spec.backend"]),
        (CPU, {"command": ["a", "--ddp_backend=my_own"]}, []),
        (CPU, {**CCL, "ccl": {"workerAffinity": "auto"}}, []),
        (CPU, {**CCL, "ccl": {"workerAffinity": "08,9"}}, []),
        (CPU, {**CCL, "ccl": {"workerAffinity": "8-9"}}, []),
        (CPU, {**CCL, "ccl": {"workerAffinity": "8"}}, ["spec.ccl.workerAffinity"]),
        (CPU, {**CCL, "ccl": {"workerAffinity": "0-5", "workers": 3}}, []),
        (CPU, {**CCL, "ccl": {"transport": "mpi"}}, []),
        (CPU, {**CCL, "ccl": {"transport": "ofi"}}, []),
        (CPU, {**CCL, "mpi": {"implementation": "OpenMPI"}, "ccl": {"transport": "mpi"}}, ["spec.ccl.transport"]),
        (CPU, {**CCL, "mpi": {"binding": "core"}}, ["spec.cpu.threadsPerProcess"]),
        (CPU, {**CCL, "mpi": {"binding": "core"}, "cpu": {"threadsPerProcess": 1}}, []),
        (CPU, {"env": [{"name": "CCL_WORKER_COUNT", "value": "2"}]}, []),
        (CPU, {**CCL, "env": [{"name": "CCL_WORKER_COUNT", "value": "2"}]}, ["spec.env[0].name"]),
        (CPU, {**CCL, "env": [{"name": "I_MPI_PIN_DOMAIN", "value": "core"}]}, []),
    ],
)
def test_a_backend_and_its_settings_fit_the_job(
    accelerator: dict[str, Any], spec: dict[str, Any], fields: list[str]
) -> None:
    found = errors(validate(default(job(accelerator, spec))))

    assert [format_path(problem.path) for problem in found] == fields


@pytest.mark.parametrize(
    ("accelerator", "hint"),
    [
        ({"type": "xpu"}, "xccl or ccl"),
        ({"type": "npu"}, "hccl"),
        ({"type": "neuron"}, "xla or neuron"),
        ({"type": "xpu", "devices": []}, ""),
        *((each, "") for each in (CPU, CUDA, {"type": "rocm"})),
    ],
)
def test_gloo_beside_devices_that_it_cannot_reach_is_a_warning(accelerator: dict[str, Any], hint: str) -> None:
    """The default group of torch 2.15 has gloo for tensors of cpu and cuda (Backend.backend_capability)."""
    found = [each for each in validate(default(job(accelerator, {"backend": "gloo"}))) if each.path[-1] == "backend"]
    told = f"backend gloo does not move tensors of type {accelerator['type']}: a collective on one fails"
    ways = f"use backend {hint}, or collectives on tensors of the CPU alone"

    assert [(each.kind, each.message, each.hint) for each in found] == ([(Kind.WARNING, told, ways)] if hint else [])

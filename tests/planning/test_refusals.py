"""Jobs that an API server would take and that could not work: refused before they are sent."""

from __future__ import annotations

from typing import Any

import pytest

from k8sel.defaults import default
from k8sel.rules.namespace import LEVELS
from k8sel.validate import errors, namespace_policy, validate
from planning.jobs import job
from planning.levels import JOBS, loaded, refused_by

CUDA = {"type": "cuda"}
MPI = {"launcher": "mpirun"}
USER = {"podSecurityContext": {"runAsUser": 1000}}


def refused(door: str = "kubernetes", **spec: object) -> list[str]:
    """The fields that are wrong in a job."""
    return [str(problem).split(": ")[0] for problem in errors(validate(default(job(CUDA, spec), door), door))]


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


@pytest.mark.parametrize(("door", "fields"), [("kubernetes", BIND), ("docker", BIND), ("run", [])])
def test_only_a_container_is_kept_from_binding_memory(door: str, fields: list[str]) -> None:
    assert refused(door, **MPI, nodes=1, mpi={"implementation": "MPICH", "binding": "socket"}) == fields

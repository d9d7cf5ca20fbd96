"""What only holds for containers on this machine, without a cluster around them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import wraps
from typing import Any

from msgspec import Struct

from k8sel.errors import FieldPath, Problem
from k8sel.facts.accelerators import ROWS
from k8sel.facts.fields import FIELDS
from k8sel.jobfile.rules.common import Rule
from k8sel.jobfile.spec import JobFile
from k8sel.wording import forbidden, required, warning

BOTH_SECURITY = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile", "appArmorProfile", "seLinuxOptions")
SECURITY = (*BOTH_SECURITY, "supplementalGroups", "fsGroup", "sysctls")
CONTAINER_SECURITY = (
    *(*BOTH_SECURITY, "privileged", "capabilities", "readOnlyRootFilesystem", "allowPrivilegeEscalation"),
)
MOUNT = ("name", "mountPath", "readOnly", "subPath")
RESOURCES = ("cpu", "memory")
IGNORED = {row.path for rows in FIELDS.values() for row in rows.values() if row.docker == "ignored"}


def _only_docker(rule: Rule) -> Rule:
    @wraps(rule)
    def apart(job: JobFile, door: str) -> Iterator[Problem]:
        if door == "docker":
            yield from rule(job, door)

    return apart


@_only_docker
def exposure_is_known(job: JobFile, door: str) -> Iterator[Problem]:
    """Chosen devices enter a container in a way of their vendor's own."""
    row = ROWS.get(job.spec.accelerator.type)
    if row and row.is_device and job.spec.accelerator.devices and not row.in_docker:
        message = f"how chosen devices of type {row.name} enter a container of Docker's is not in the table"
        yield forbidden(("spec", "accelerator", "type"), message, "`k8sel run`, or a cluster")


@_only_docker
def volumes_are_here(job: JobFile, door: str) -> Iterator[Problem]:
    """Only a folder of the host's is anything without a cluster."""
    for index, volume in enumerate(job.spec.volumes):
        for source in (key for key in volume if key not in ("name", "hostPath")):
            message = f"{source} is the cluster's, and there is none"
            yield forbidden(("spec", "volumes", index, source), message, "hostPath: {path: /data}")
        if isinstance(volume.get("hostPath"), dict) and not isinstance(volume["hostPath"].get("path"), str):
            yield forbidden(("spec", "volumes", index, "hostPath"), "it has no path", "hostPath: {path: /data}")


@_only_docker
def values_are_here(job: JobFile, door: str) -> Iterator[Problem]:
    """A value that is read elsewhere is the cluster's."""
    for index, variable in enumerate(job.spec.env):
        if variable.value_from:
            message = f"{variable.name} comes from the cluster (valueFrom), and there is none"
            yield forbidden(("spec", "env", index, "valueFrom"), message, "a value")


@_only_docker
def security_is_whole(job: JobFile, door: str) -> Iterator[Problem]:
    """The API server refuses these, too; here nobody else would look."""
    for name, given in _contexts(job):
        apparmor, sysctls = given.get("appArmorProfile"), given.get("sysctls")
        if isinstance(apparmor, dict) and apparmor.get("type") == "Localhost" and "localhostProfile" not in apparmor:
            path = ("spec", name, "appArmorProfile", "localhostProfile")
            yield required(path, "type Localhost needs the name of a profile that this machine has loaded")
        for index, sysctl in enumerate(sysctls if isinstance(sysctls, list) else ()):
            for part in ("name", "value"):
                if isinstance(sysctl, dict) and part not in sysctl:
                    yield required(("spec", name, "sysctls", index, part), "a sysctl has a name and a value")


def _contexts(job: JobFile) -> tuple[tuple[str, dict[str, Any]], ...]:
    spec = job.spec
    return ("podSecurityContext", spec.pod_security_context), ("securityContext", spec.security_context)


@_only_docker
def ignored_fields(job: JobFile, door: str) -> Iterator[Problem]:
    """What only a cluster can do is left out, and said."""
    for path, value in _clusters_own(job):
        if value:
            yield warning(("spec", *path), "Docker has nothing like it, so it is ignored", "nothing: clusters read it")


def _clusters_own(job: JobFile) -> Iterator[tuple[FieldPath, object]]:
    spec, asked = job.spec, job.spec.accelerator
    yield ("accelerator", "allocation"), asked.allocation == "host"
    yield ("accelerator", "resource"), asked.resource
    yield from ((path, value) for path, value in _values(spec) if ("spec", *path) in IGNORED)
    for (name, given), known in zip(_contexts(job), (SECURITY, CONTAINER_SECURITY), strict=True):
        yield from _others((name,), given, known)
        # A file in the kubelet's own folder; Docker's own profile holds instead.
        yield (name, "seccompProfile", "localhostProfile"), "localhostProfile" in (given.get("seccompProfile") or ())
    yield from _others(("resources",), spec.resources, RESOURCES)
    for index, mount in enumerate(spec.volume_mounts):
        yield from _others(("volumeMounts", index), mount, MOUNT)


def _values(part: Struct) -> Iterator[tuple[tuple[str, ...], object]]:
    """Each field of ``part`` and of the parts in it, with its value, in the order of the models."""
    for key, attribute in zip(part.__struct_encode_fields__, part.__struct_fields__, strict=True):
        value = getattr(part, attribute)
        yield (key,), value
        if isinstance(value, Struct):
            yield from (((key, *path), inner) for path, inner in _values(value))


def _others(path: FieldPath, given: dict[str, Any], known: tuple[str, ...]) -> Iterator[tuple[FieldPath, object]]:
    for name in given:
        yield (*path, name), name not in known


RULES: tuple[Rule, ...] = (
    exposure_is_known,
    volumes_are_here,
    values_are_here,
    security_is_whole,
    ignored_fields,
)

"""Rules for containers on this machine, which has no cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from msgspec import Struct

from k8sel.errors import FieldPath, Problem
from k8sel.facts.accelerators import ROWS
from k8sel.facts.fields import FIELDS
from k8sel.facts.platforms import Platform
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.defaults import GANG_SCHEDULERS
from k8sel.jobfile.rules.common import rules_in
from k8sel.jobfile.spec import Policy
from k8sel.wording import bare, forbidden, required, warning

BOTH_SECURITY = ("runAsUser", "runAsGroup", "runAsNonRoot", "seccompProfile", "appArmorProfile", "seLinuxOptions")
SECURITY = (*BOTH_SECURITY, "supplementalGroups", "fsGroup", "sysctls")
CONTAINER_SECURITY = (
    *(*BOTH_SECURITY, "privileged", "capabilities", "readOnlyRootFilesystem", "allowPrivilegeEscalation"),
)
MOUNT = ("name", "mountPath", "readOnly", "subPath")
RESOURCES = ("cpu", "memory")
IGNORED = {row.path for rows in FIELDS.values() for row in rows.values() if row.docker == "ignored"}


def exposure_is_known(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses chosen devices where the table has no way to expose them in a container."""
    row = ROWS.get(job.spec.accelerator.type)
    if row and row.is_device and job.spec.accelerator.devices and not row.in_docker:
        message = f"k8sel does not know how Docker exposes chosen devices of type {row.name}"
        yield forbidden(("spec", "accelerator", "type"), message, "use `k8sel run`, or a cluster")


def volumes_are_here(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses volumes that a cluster provides: Docker mounts only folders of this machine."""
    for index, volume in enumerate(job.spec.volumes):
        for source in (key for key in volume if key not in ("name", "hostPath")):
            message = f"Docker cannot mount {bare(source)}, only a cluster can"
            yield forbidden(("spec", "volumes", index, source), message, "hostPath: {path: /data}")
        if isinstance(volume.get("hostPath"), dict) and not isinstance(volume["hostPath"].get("path"), str):
            yield forbidden(("spec", "volumes", index, "hostPath"), "hostPath needs a path", "hostPath: {path: /data}")


def values_are_here(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses variables that take their value from a cluster."""
    for index, variable in enumerate(job.spec.env):
        if variable.value_from:
            message = f"{variable.name} takes its value from a cluster (valueFrom), and Docker has no cluster"
            yield forbidden(("spec", "env", index, "valueFrom"), message, "write a value")


def security_is_whole(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses incomplete profiles and sysctls. On a cluster, the API server refuses them."""
    for name, given in _contexts(job):
        apparmor, sysctls = given.get("appArmorProfile"), given.get("sysctls")
        if isinstance(apparmor, dict) and apparmor.get("type") == "Localhost" and "localhostProfile" not in apparmor:
            path = ("spec", name, "appArmorProfile", "localhostProfile")
            yield required(path, "type Localhost needs the name of an AppArmor profile that this machine has loaded")
        for index, sysctl in enumerate(sysctls if isinstance(sysctls, list) else ()):
            for part in ("name", "value"):
                if isinstance(sysctl, dict) and part not in sysctl:
                    yield required(("spec", name, "sysctls", index, part), "a sysctl has a name and a value")


def _contexts(job: CompleteJob) -> tuple[tuple[str, dict[str, Any]], ...]:
    spec = job.spec
    return ("podSecurityContext", spec.pod_security_context), ("securityContext", spec.security_context)


def ignored_fields(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of fields that Docker ignores."""
    for path, value in _clusters_own(job):
        if value:
            message = "Docker ignores this field"
            yield warning(("spec", *path), message, "keep it for a cluster, or leave it out")


def _clusters_own(job: CompleteJob) -> Iterator[tuple[FieldPath, object]]:
    """Yields the paths below spec that only a cluster reads, each with a value that is true where the file sets it."""
    spec, accelerator = job.spec, job.spec.accelerator
    yield ("accelerator", "allocation"), accelerator.allocation == "host"
    yield ("accelerator", "resource"), accelerator.resource
    filled_in: dict[tuple[str, ...], object] = {
        ("policy", "cleanPodPolicy"): Policy().clean_pod_policy,
        ("scheduling", "schedulerName"): GANG_SCHEDULERS.get(spec.scheduling.gang),
    }
    for path, value in _values(spec):
        yield path, ("spec", *path) in IGNORED and value != filled_in.get(path) and value
    for (name, given), known in zip(_contexts(job), (SECURITY, CONTAINER_SECURITY), strict=True):
        yield from _others((name,), given, known)
        # The profile is a file in the kubelet's folder. Docker applies its default profile instead.
        yield (name, "seccompProfile", "localhostProfile"), "localhostProfile" in (given.get("seccompProfile") or ())
    yield from _others(("resources",), spec.resources, RESOURCES)
    for index, mount in enumerate(spec.volume_mounts):
        yield from _others(("volumeMounts", index), mount, MOUNT)


def _values(part: Struct) -> Iterator[tuple[tuple[str, ...], object]]:
    """Yields each field of ``part`` and of its nested parts, with its value, in the order of the models."""
    for key, attribute in zip(part.__struct_encode_fields__, part.__struct_fields__, strict=True):
        value = getattr(part, attribute)
        yield (key,), value
        if isinstance(value, Struct):
            yield from (((key, *path), inner) for path, inner in _values(value))


def _others(path: FieldPath, given: dict[str, Any], known: tuple[str, ...]) -> Iterator[tuple[FieldPath, object]]:
    for name in given:
        yield (*path, name), name not in known


RULES = rules_in(globals())

"""Rules for fields of the pod and the container: volumes, mounts and resources."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from k8sel.errors import FieldPath, Problem
from k8sel.facts.accelerators import ROWS
from k8sel.facts.launchers import LAUNCHERS
from k8sel.facts.platforms import Platform
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.quantity import amount, is_whole, text
from k8sel.jobfile.rules.common import LABEL_NAME, SUBDOMAIN, rules_in
from k8sel.wording import bare, duplicate, forbidden, invalid, not_supported, quote, required, warning

QUANTITY_RULE = "write a number, or a number with a unit such as 500m, 16Gi or 2G"
NATIVE = ("cpu", "memory", "ephemeral-storage")
# A volume's source -> its main field, for those who write the field's value alone.
_INSIDE = {"hostPath": "path", "persistentVolumeClaim": "claimName", "configMap": "name", "secret": "secretName"}
DNS_LABEL = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
DNS_LABEL_RULE = "use at most 63 lower-case letters, digits and '-'; start and end with a letter or digit"


def volumes_are_named(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a volume whose name is missing, malformed, duplicate or reserved for k8sel."""
    seen: dict[str, int] = {}
    for index, volume in enumerate(job.spec.volumes):
        name, path = volume.get("name"), ("spec", "volumes", index, "name")
        if not isinstance(name, str):
            yield required(path, "a volume needs a name")
        elif name.startswith("k8sel"):
            yield forbidden(path, "names that begin with k8sel are reserved", "choose another name")
        elif not re.fullmatch(DNS_LABEL, name):
            yield invalid(path, f"{quote(name)} is not allowed: {DNS_LABEL_RULE}")
        elif seen.setdefault(name, index) != index:
            yield duplicate(path, f"{name} is already in volumes[{seen[name]}]", "choose another name")


def volumes_have_a_source(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a volume that does not have exactly one source."""
    for index, volume in enumerate(job.spec.volumes):
        sources = sorted(key for key in volume if key != "name")
        if len(sources) != 1:
            found = " and ".join(map(bare, sources)) or "none"
            message = f"exactly one volume source expected, {found} found"
            yield invalid(("spec", "volumes", index), message, "write persistentVolumeClaim: {claimName: data}")
        elif not isinstance(volume[sources[0]], dict):
            path = ("spec", "volumes", index, sources[0])
            value = volume[sources[0]]
            inside = _INSIDE.get(sources[0]) if isinstance(value, str) else None
            setting = f"{{{inside}: {bare(value)}}}" if inside else "{} if it has no settings"
            hint = f"write {bare(sources[0])}: {setting}"
            yield invalid(path, "expected a mapping (key: value)", hint)


def mounts_have_a_volume(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a mount whose volume does not exist."""
    names = [str(volume.get("name")) for volume in job.spec.volumes]
    for index, mount in enumerate(job.spec.volume_mounts):
        name, path = mount.get("name"), ("spec", "volumeMounts", index, "name")
        if not isinstance(name, str):
            hint = f"use one of {', '.join(map(bare, names))}" if names else ""
            yield required(path, "a mount needs the name of a volume", hint)
        elif name not in names:
            only = f", only {', '.join(map(bare, names))}" if names else ""
            yield invalid(path, f"there is no volume {quote(name)}{only}", "add it to volumes")


def mounts_have_a_place(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a mount path that is missing, malformed or already in use."""
    seen: dict[str, int] = {}
    for index, mount in enumerate(job.spec.volume_mounts):
        where, path = mount.get("mountPath"), ("spec", "volumeMounts", index, "mountPath")
        if not isinstance(where, str) or not where:
            yield required(path, "a mount needs a mountPath", "write mountPath: /data")
            continue
        place = where.rstrip("/") or "/"
        if not where.startswith("/") or ":" in where:
            yield invalid(path, f"{quote(where)} is not an absolute path without a colon", "write mountPath: /data")
        else:
            yield from _reserved(job, path, place)
            if seen.setdefault(place, index) != index:
                message = f"{quote(place)} is already in volumeMounts[{seen[place]}]"
                yield duplicate(path, message, "choose another mountPath")


def _reserved(job: CompleteJob, path: FieldPath, place: str) -> Iterator[Problem]:
    """Refuses paths where k8sel or an operator mounts something."""
    mpi = LAUNCHERS[job.spec.launcher].uses_mpi
    taken = {"/k8sel": "k8sel's entrypoint is mounted there", "/": "a volume at / would hide the whole image"}
    if job.spec.shared_memory is not None:
        taken["/dev/shm"] = "sharedMemory is mounted there"
    if mpi:
        taken["/etc/mpi"] = "the operator mounts the list of hosts there"
        taken[job.spec.mpi.ssh_auth_mount_path.rstrip("/")] = "the operator mounts the ssh keys there"
    for other, reason in taken.items():
        if place == other or (other != "/" and place.startswith(f"{other}/")):
            yield forbidden(path, reason, "choose another mountPath")


def resource_names(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses resources that are neither Kubernetes' own nor named with a plugin's domain."""
    for name in job.spec.resources:
        path = ("spec", "resources", name)
        if name in NATIVE or name.startswith("hugepages-"):
            continue
        domain, slash, rest = name.partition("/")
        if not slash:
            yield not_supported(path, name, (*NATIVE, "hugepages-2Mi", "example.org/name"), _resource_hint(name))
        elif not re.fullmatch(SUBDOMAIN, domain) or not re.fullmatch(LABEL_NAME, rest):
            message = f"{quote(name)} is not a resource name"
            yield invalid(path, message, "write for example rdma/hca or vendor.example/device")


def _resource_hint(name: str) -> str:
    return "use accelerator.count to request devices" if name.lower() in ("gpu", "gpus", *ROWS) else ""


def devices_are_the_accelerators(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses devices in ``resources``: only ``accelerator`` requests devices."""
    patterns = [row.resource_pattern for row in ROWS.values() if row.resource_pattern]
    own = job.spec.accelerator.resource
    for name in job.spec.resources:
        if name == own or (name not in NATIVE and any(re.fullmatch(pattern, name) for pattern in patterns)):
            message = "devices are requested by accelerator, not here"
            yield forbidden(("spec", "resources", name), message, "use accelerator.count and accelerator.resource")


def quantities(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses amounts that Kubernetes cannot read, and amounts that are not above zero."""
    amounts: dict[FieldPath, Any] = {("spec", "resources", name): value for name, value in job.spec.resources.items()}
    if job.spec.shared_memory is not None:
        amounts["spec", "sharedMemory"] = job.spec.shared_memory
    if job.spec.accelerator.memory is not None:
        amounts["spec", "accelerator", "memory"] = job.spec.accelerator.memory
    for path, value in amounts.items():
        number, written = amount(value), text(value)
        if number is None:
            yield invalid(path, f"{quote(written)} is not a quantity: {QUANTITY_RULE}", _unit_hint(written))
        elif number <= 0:
            yield invalid(path, f"{written} is not above 0", "leave it out, or write an amount above 0")
        elif not is_whole(number) and "/" in str(path[-1]):
            message = f"{written} is not a whole number, and a device plugin gives only whole ones"
            yield invalid(path, message, "write a whole number")


def _unit_hint(written: str) -> str:
    """Returns the quantity with the unit that the user probably meant: ``16GB`` becomes 16G, ``16gi`` becomes 16Gi."""
    match = re.fullmatch(r"([0-9.]+)\s*([kmgtp])(i?)b?", written.lower())
    if not match:
        return ""
    letter = match[2] if match[2] == "k" and not match[3] else match[2].upper()
    return f"write {match[1]}{letter}{match[3]}"


def somewhere_to_write(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Warns of a read-only /tmp: torchrun writes each process's error file there."""
    places = [str(mount.get("mountPath")).rstrip("/") for mount in job.spec.volume_mounts]
    if job.spec.security_context.get("readOnlyRootFilesystem") is True and "/tmp" not in places:
        path = ("spec", "securityContext", "readOnlyRootFilesystem")
        yield warning(path, "the launcher writes to /tmp, which would be read-only", "mount an emptyDir volume at /tmp")


RULES = rules_in(globals())

"""What a namespace's Pod Security level refuses of a job's pods, before the cluster does.

https://github.com/kubernetes/pod-security-admission/tree/v0.36.3/policy (check_*.go)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from k8sel.defaults import is_root
from k8sel.errors import FieldPath, Problem
from k8sel.rules.common import bare, forbidden
from k8sel.rules.security import effective
from k8sel.spec import JobFile

Check = Callable[[JobFile], Iterator[Problem]]

BASELINE_CAPABILITIES = frozenset(
    ("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP")
) | frozenset(("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"))
RESTRICTED_CAPABILITIES = frozenset(("NET_BIND_SERVICE",))
RESTRICTED_VOLUMES = frozenset(
    (
        "configMap",
        "csi",
        "downwardAPI",
        "emptyDir",
        "ephemeral",
        "image",
        "persistentVolumeClaim",
        "projected",
        "secret",
    )
)


def _no_host_network(job: JobFile) -> Iterator[Problem]:
    if job.spec.host_network:
        yield forbidden(("spec", "hostNetwork"), "the namespace's level allows no host network", "leave it out")


def _no_host_path(job: JobFile) -> Iterator[Problem]:
    for index, volume in enumerate(job.spec.volumes):
        if "hostPath" in volume:
            path: FieldPath = ("spec", "volumes", index, "hostPath")
            yield forbidden(path, "the namespace's level allows no host path", "a persistentVolumeClaim")


def _not_privileged(job: JobFile) -> Iterator[Problem]:
    if job.spec.security_context.get("privileged") is True:
        path = ("spec", "securityContext", "privileged")
        yield forbidden(path, "the namespace's level allows no privileged container", "leave it out")


def _named(job: JobFile, part: str) -> list[str] | None:
    """The capabilities that the file adds or drops; None where it says nothing."""
    given = job.spec.security_context.get("capabilities")
    names: Any = given.get(part) if isinstance(given, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else None


def _capabilities(job: JobFile, allowed: frozenset[str]) -> Iterator[Problem]:
    for index, name in enumerate(_named(job, "add") or ()):
        if name not in allowed:
            path: FieldPath = ("spec", "securityContext", "capabilities", "add", index)
            yield forbidden(path, f"the namespace's level does not allow {bare(name)}", "leave it out")


def _baseline_capabilities(job: JobFile) -> Iterator[Problem]:
    yield from _capabilities(job, BASELINE_CAPABILITIES)


def _restricted_capabilities(job: JobFile) -> Iterator[Problem]:
    yield from _capabilities(job, RESTRICTED_CAPABILITIES)


def _not_root(job: JobFile) -> Iterator[Problem]:
    user, path = effective(job.spec, "runAsUser")
    refused, where = effective(job.spec, "runAsNonRoot")
    if refused is False or (user == 0 and not isinstance(user, bool)):
        place = where if refused is False else path
        yield forbidden(place, "the namespace's level allows no root", "runAsNonRoot: true, and runAsUser: 1000, say")
    elif is_root(job.spec):
        path = ("spec", "podSecurityContext")
        hint = "podSecurityContext: {runAsUser: 1000}, or runAsNonRoot: true where the image has a user"
        yield forbidden(path, "the namespace's level allows no root, and the file names no user", hint)


def _no_escalation(job: JobFile) -> Iterator[Problem]:
    if job.spec.security_context.get("allowPrivilegeEscalation") is True:
        path = ("spec", "securityContext", "allowPrivilegeEscalation")
        yield forbidden(path, "the namespace's level does not allow it", "leave it out")


def _drops_all(job: JobFile) -> Iterator[Problem]:
    dropped = _named(job, "drop")
    if dropped is not None and "ALL" not in dropped:
        path = ("spec", "securityContext", "capabilities", "drop")
        yield forbidden(path, "the namespace's level wants every capability dropped", "drop: [ALL], or leave it out")


def _known_seccomp(job: JobFile) -> Iterator[Problem]:
    profile, path = effective(job.spec, "seccompProfile")
    kind = profile.get("type") if isinstance(profile, dict) else None
    if profile is not None and kind not in ("RuntimeDefault", "Localhost"):
        yield forbidden(path, f"the namespace's level does not allow seccomp {bare(str(kind))}", "leave it out")


def _volume_kinds(job: JobFile) -> Iterator[Problem]:
    for index, volume in enumerate(job.spec.volumes):
        for kind in volume.keys() - RESTRICTED_VOLUMES - {"name", "hostPath"}:
            path: FieldPath = ("spec", "volumes", index, kind)
            yield forbidden(
                path, f"the namespace's level does not allow volumes {bare(kind)}", "a persistentVolumeClaim"
            )


def _no_init_container(job: JobFile) -> Iterator[Problem]:
    """training-operator's initcontainer.go gives the workers one without a securityContext."""
    nodes = job.spec.nodes or 1
    if job.spec.target == "PyTorchJob" and nodes > 1:
        message = "training-operator puts an init container without securityContext into every pod but the first"
        hint = "nodes: 1, launcher mpirun, or an operator whose initContainer.yaml has one that the level allows"
        yield forbidden(("spec", "nodes"), message, hint)


BASELINE: tuple[Check, ...] = (_no_host_network, _no_host_path, _not_privileged, _known_seccomp)
RESTRICTED: tuple[Check, ...] = (
    *BASELINE,
    _restricted_capabilities,
    _not_root,
    _no_escalation,
    _drops_all,
    _volume_kinds,
    _no_init_container,
)
LEVELS: dict[str, tuple[Check, ...]] = {
    "privileged": (),
    "baseline": (*BASELINE, _baseline_capabilities),
    "restricted": RESTRICTED,
}

"""Refuses what a namespace's Pod Security level refuses of a job's pods, before the cluster does.

https://github.com/kubernetes/pod-security-admission/tree/v0.36.3/policy (check_*.go)
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from k8sel.errors import FieldPath, Problem
from k8sel.facts.kinds import JOB_KINDS
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.defaults import is_root
from k8sel.wording import bare, forbidden

Check = Callable[[CompleteJob], Iterator[Problem]]

BASELINE_CAPABILITIES = frozenset(
    ("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP")
) | frozenset(("SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"))
SYSCTLS = frozenset(
    (
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.ip_local_reserved_ports",
        "net.ipv4.ip_unprivileged_port_start",
        "net.ipv4.ping_group_range",
        "net.ipv4.tcp_fin_timeout",
        "net.ipv4.tcp_keepalive_intvl",
        "net.ipv4.tcp_keepalive_probes",
        "net.ipv4.tcp_keepalive_time",
        "net.ipv4.tcp_rmem",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.tcp_wmem",
    )
)
SELINUX_TYPES = frozenset(("", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"))
PROFILES = ("RuntimeDefault", "Localhost")
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


def _refused(path: FieldPath, what: str, hint: str = "leave it out") -> Problem:
    return forbidden(path, f"the namespace's Pod Security level does not allow {what}", hint)


def _values(job: CompleteJob, key: str) -> Iterator[tuple[Any, FieldPath]]:
    """Yields the file's values of ``key`` for the pod and for the container: a level judges both."""
    for field, given in (
        ("podSecurityContext", job.spec.pod_security_context),
        ("securityContext", job.spec.security_context),
    ):
        if given.get(key) is not None:
            yield given[key], ("spec", field, key)


def _no_host_network(job: CompleteJob) -> Iterator[Problem]:
    if job.spec.host_network:
        yield _refused(("spec", "hostNetwork"), "the host network")


def _no_host_path(job: CompleteJob) -> Iterator[Problem]:
    for index, volume in enumerate(job.spec.volumes):
        if "hostPath" in volume:
            path: FieldPath = ("spec", "volumes", index, "hostPath")
            yield _refused(path, "a host path", "use a persistentVolumeClaim")


def _not_true(job: CompleteJob, field: str, what: str) -> Iterator[Problem]:
    if job.spec.security_context.get(field) is True:
        yield _refused(("spec", "securityContext", field), what)


def _named(job: CompleteJob, part: str) -> list[str] | None:
    """Returns the capabilities that the file adds or drops; None where the file has no such list."""
    given = job.spec.security_context.get("capabilities")
    names: Any = given.get(part) if isinstance(given, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else None


def _capabilities(job: CompleteJob, allowed: frozenset[str]) -> Iterator[Problem]:
    for index, name in enumerate(_named(job, "add") or ()):
        if name not in allowed:
            path: FieldPath = ("spec", "securityContext", "capabilities", "add", index)
            yield _refused(path, f"capability {bare(name)}")


def _not_root(job: CompleteJob) -> Iterator[Problem]:
    root = [path for user, path in _values(job, "runAsUser") if user == 0 and not isinstance(user, bool)]
    maybe = [path for refused, path in _values(job, "runAsNonRoot") if refused is False]
    for path in (*root, *maybe):
        yield _refused(path, "root", "write runAsNonRoot: true, and for example runAsUser: 1000")
    if not (root or maybe) and is_root(job.spec):
        hint = "write podSecurityContext: {runAsUser: 1000}, or runAsNonRoot: true if the image has a user"
        yield _refused(("spec", "podSecurityContext"), "root, and the file sets no user", hint)


def _drops_all(job: CompleteJob) -> Iterator[Problem]:
    dropped = _named(job, "drop")
    if dropped is not None and "ALL" not in dropped:
        path = ("spec", "securityContext", "capabilities", "drop")
        message = "the namespace's Pod Security level requires that every capability is dropped"
        yield forbidden(path, message, "write drop: [ALL], or leave it out")


def _confined(job: CompleteJob) -> Iterator[Problem]:
    for key, called in (("seccompProfile", "seccomp"), ("appArmorProfile", "AppArmor")):
        for profile, path in _values(job, key):
            kind = profile.get("type") if isinstance(profile, dict) else None
            if kind not in PROFILES:
                yield _refused(path, f"{called} profile {bare(str(kind))}")


def _default_proc_mount(job: CompleteJob) -> Iterator[Problem]:
    found = job.spec.security_context.get("procMount", "Default")
    if found not in ("Default", None):
        yield _refused(("spec", "securityContext", "procMount"), f"procMount {bare(str(found))}")


def _no_host_process(job: CompleteJob) -> Iterator[Problem]:
    for options, path in _values(job, "windowsOptions"):
        if isinstance(options, dict) and options.get("hostProcess"):
            yield _refused((*path, "hostProcess"), "a process of the host")


def _no_selinux_user(job: CompleteJob) -> Iterator[Problem]:
    for options, path in _values(job, "seLinuxOptions"):
        if isinstance(options, dict):
            foreign = [key for key in ("user", "role") if options.get(key)]
            foreign += ["type"] if options.get("type", "") not in SELINUX_TYPES else []
            for key in foreign:
                yield _refused((*path, key), f"this SELinux {key}")


def _safe_sysctls(job: CompleteJob) -> Iterator[Problem]:
    given = job.spec.pod_security_context.get("sysctls")
    for index, entry in enumerate(given if isinstance(given, list) else ()):
        name = entry.get("name") if isinstance(entry, dict) else None
        if name not in SYSCTLS:
            path = ("spec", "podSecurityContext", "sysctls", index)
            yield _refused(path, f"sysctl {bare(str(name))}")


def _volume_kinds(job: CompleteJob) -> Iterator[Problem]:
    for index, volume in enumerate(job.spec.volumes):
        for kind in volume.keys() - RESTRICTED_VOLUMES - {"name", "hostPath"}:
            path: FieldPath = ("spec", "volumes", index, kind)
            yield _refused(path, f"volumes of kind {bare(kind)}", "use a persistentVolumeClaim")


def _no_init_container(job: CompleteJob) -> Iterator[Problem]:
    """Refuses several nodes of a PyTorchJob: training-operator adds an init container to the workers.

    That container has no securityContext.
    """
    nodes = job.spec.nodes
    if JOB_KINDS[job.spec.target].adds_init_container and nodes > 1:
        hint = (
            "write nodes: 1 or launcher: mpirun, or give the operator's initContainer.yaml an allowed securityContext"
        )
        what = "the init container that training-operator adds to every pod but the first"
        yield _refused(("spec", "nodes"), what, hint)


BASELINE: tuple[Check, ...] = (
    _no_host_network,
    _no_host_path,
    partial(_not_true, field="privileged", what="a privileged container"),
    _default_proc_mount,
    _no_host_process,
    _confined,
    _no_selinux_user,
    _safe_sysctls,
)
RESTRICTED: tuple[Check, ...] = (
    *BASELINE,
    partial(_capabilities, allowed=RESTRICTED_CAPABILITIES),
    _not_root,
    partial(_not_true, field="allowPrivilegeEscalation", what="privilege escalation"),
    _drops_all,
    _volume_kinds,
    _no_init_container,
)
LEVELS: dict[str, tuple[Check, ...]] = {
    "privileged": (),
    "baseline": (*BASELINE, partial(_capabilities, allowed=BASELINE_CAPABILITIES)),
    "restricted": RESTRICTED,
}

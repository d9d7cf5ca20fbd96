"""Whether a namespace that enforces a Pod Security level takes a plan's pods: the operator says so only in its log.

The levels are Kubernetes' own: https://kubernetes.io/docs/concepts/security/pod-security-standards/
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from k8sel.errors import FieldPath, Kind, Problem
from k8sel.plan import JobPlan

LEVELS = ("privileged", "baseline", "restricted")

BASELINE_CAPABILITIES = frozenset(
    (
        *("AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE"),
        *("SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT"),
    )
)
RESTRICTED_CAPABILITIES = frozenset({"NET_BIND_SERVICE"})
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


def problems(plan: JobPlan, level: str) -> list[Problem]:
    """What ``level`` refuses of ``plan``, by the job file's fields."""
    if level == "privileged":
        return []
    return [*_baseline(plan), *(_restricted(plan) if level == "restricted" else ())]


def _baseline(plan: JobPlan) -> Iterator[Problem]:
    if plan.pod.get("hostNetwork"):
        yield _refused("baseline", ("hostNetwork",), "the host's network", "a privileged namespace, or false")
    if _security(plan).get("privileged"):
        yield _refused("baseline", ("securityContext", "privileged"), "a privileged container", "false")
    for number, volume in enumerate(plan.pod.get("volumes", ())):
        if "hostPath" in volume:
            yield _refused(
                "baseline", ("volumes", number, "hostPath"), "a folder of the host", "a PersistentVolumeClaim"
            )
    extra = _added(plan) - BASELINE_CAPABILITIES
    if extra:
        path = ("securityContext", "capabilities", "add")
        yield _refused("baseline", path, f"the capabilities {_listed(extra)}", "a privileged namespace")


def _restricted(plan: JobPlan) -> Iterator[Problem]:
    pod_security, security = plan.pod.get("securityContext", {}), _security(plan)
    if not {**pod_security, **security}.get("runAsNonRoot"):
        yield _refused("restricted", ("podSecurityContext",), "pods that may run as root", "runAsUser: 1000, say")
    if security.get("allowPrivilegeEscalation") is not False:
        path = ("securityContext", "allowPrivilegeEscalation")
        yield _refused("restricted", path, "programs that gain privileges", "false, the default")
    yield from _restricted_capabilities(plan)
    for number, volume in enumerate(plan.pod.get("volumes", ())):
        kinds = set(volume) - {"name", "hostPath"} - RESTRICTED_VOLUMES
        for kind in sorted(kinds):
            yield _refused("restricted", ("volumes", number, kind), f"a volume of kind {kind}", "a claim for it")
    if plan.target == "PyTorchJob" and len(plan.nodes) > 1:
        what = "the init container that the training-operator gives each pod after the first"
        hint = "nodes: 1, or have the operator's administrator give its init container a securityContext"
        yield _refused("restricted", ("nodes",), what, hint)


def _restricted_capabilities(plan: JobPlan) -> Iterator[Problem]:
    path: FieldPath = ("securityContext", "capabilities")
    if "ALL" not in _security(plan).get("capabilities", {}).get("drop", ()):
        yield _refused("restricted", (*path, "drop"), "a container that keeps capabilities", "[ALL], the default")
    extra = _added(plan) & BASELINE_CAPABILITIES - RESTRICTED_CAPABILITIES
    if extra and "runAsUser" not in plan.pod.get("securityContext", {}) and plan.mpi:
        what = f"the capabilities {_listed(extra)}, which root's sshd needs"
        yield _refused("restricted", ("podSecurityContext",), what, "runAsUser: 1000, say")
    elif extra:
        yield _refused("restricted", (*path, "add"), f"the capabilities {_listed(extra)}", "leave them out")


def _security(plan: JobPlan) -> dict[str, Any]:
    context: dict[str, Any] = plan.container.get("securityContext", {})
    return context


def _added(plan: JobPlan) -> set[str]:
    return set(_security(plan).get("capabilities", {}).get("add", ()))


def _listed(names: set[str]) -> str:
    return ", ".join(sorted(names))


def _refused(level: str, path: FieldPath, what: str, hint: str) -> Problem:
    message = f'Pod Security level "{level}" refuses {what}'
    return Problem(kind=Kind.FORBIDDEN, path=("spec", *path), message=message, hint=hint)

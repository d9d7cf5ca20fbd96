"""Users and rights of the containers, where the file contradicts itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from k8sel.errors import FieldPath, Problem
from k8sel.facts.launchers import MPIS
from k8sel.jobfile.defaults import ROOT_SSH, is_root
from k8sel.jobfile.rules.common import Rule
from k8sel.jobfile.spec import JobFile, Spec
from k8sel.wording import invalid, warning


def effective(spec: Spec, key: str) -> tuple[Any, FieldPath]:
    """What holds for the container, and where it is said: its own value, else the pod's."""
    if key in spec.security_context:
        return spec.security_context[key], ("spec", "securityContext", key)
    return spec.pod_security_context.get(key), ("spec", "podSecurityContext", key)


def not_root_is_not_root(job: JobFile, door: str) -> Iterator[Problem]:
    """The kubelet refuses to start such a container."""
    wanted, _ = effective(job.spec, "runAsNonRoot")
    user, path = effective(job.spec, "runAsUser")
    if wanted is True and user == 0 and not isinstance(user, bool):
        yield invalid(path, "runAsNonRoot is true, and user 0 is root", "runAsUser: 1000, say")


def privileged_escalates(job: JobFile, door: str) -> Iterator[Problem]:
    """The API server refuses a privileged container that may not gain privileges."""
    own = job.spec.security_context
    if own.get("privileged") is True and own.get("allowPrivilegeEscalation") is False:
        path = ("spec", "securityContext", "allowPrivilegeEscalation")
        yield invalid(path, "a privileged container always may", "leave it out")


def sshd_has_its_port(job: JobFile, door: str) -> Iterator[Problem]:
    """Ports below 1024 are root's."""
    port = job.spec.mpi.ssh_port
    if job.spec.launcher == "mpirun" and port and port < 1024 and not is_root(job.spec):
        yield invalid(("spec", "mpi", "sshPort"), f"only root may listen on port {port}", "leave it out: 2222 is used")


def ssh_keys_fit_the_user(job: JobFile, door: str) -> Iterator[Problem]:
    """mpi-operator makes the keys private at root's own path only, and ssh takes only private keys of its user.

    https://github.com/kubeflow/mpi-operator/blob/v0.8.0/pkg/controller/mpi_job_controller.go (``setupSSHOnPod``);
    https://github.com/openssh/openssh-portable/blob/V_9_2_P1/authfile.c (``sshkey_perm_ok``).
    """
    path = job.spec.mpi.ssh_auth_mount_path
    if job.spec.launcher != "mpirun" or (path == ROOT_SSH) == is_root(job.spec):
        return
    hint = "leave it out, or name the user: podSecurityContext: {runAsUser: 1000}, say"
    user = "root" if is_root(job.spec) else "a user that is not root"
    yield invalid(("spec", "mpi", "sshAuthMountPath"), f"ssh of {user} refuses the keys at {path}", hint)


def ssh_keys_stay_private(job: JobFile, door: str) -> Iterator[Problem]:
    """An fsGroup makes a Secret's files readable for the group, and root's ssh refuses such keys of its own."""
    group = job.spec.pod_security_context.get("fsGroup")
    if job.spec.launcher == "mpirun" and is_root(job.spec) and group is not None and door == "kubernetes":
        message = "the group may read root's ssh keys then, and ssh refuses them"
        yield invalid(("spec", "podSecurityContext", "fsGroup"), message, "leave it out, or runAsUser: 1000, say")


def binding_is_let_through(job: JobFile, door: str) -> Iterator[Problem]:
    """Some MPI binds memory too, and dies where a container's seccomp profile leaves that to a capability."""
    spec = job.spec
    mpi = MPIS[str(spec.mpi.implementation)] if spec.launcher == "mpirun" and door != "run" else None
    needed = mpi.binding_capability if mpi and spec.mpi.binding not in (None, "none") else None
    if needed and _runtimes_profile(spec) and not _may(spec, needed):
        message = f"{spec.mpi.implementation} binds memory too, which a container may not do without {needed}"
        hint = f"securityContext: {{capabilities: {{add: [{needed}]}}}}, or binding: none"
        yield invalid(("spec", "mpi", "binding"), message, hint)


def _runtimes_profile(spec: Spec) -> bool:
    """Whether the container runtime's own seccomp profile holds: it does where the file says none, too."""
    profile, _ = effective(spec, "seccompProfile")
    kind = profile.get("type") if isinstance(profile, dict) else None
    return kind in (None, "RuntimeDefault") and spec.security_context.get("privileged") is not True


def _may(spec: Spec, capability: str) -> bool:
    given = spec.security_context.get("capabilities")
    added = given.get("add") if isinstance(given, dict) else None
    return isinstance(added, list) and (capability in added or "ALL" in added)


def somewhere_to_write(job: JobFile, door: str) -> Iterator[Problem]:
    """torchrun keeps each process's error file below /tmp."""
    places = [str(mount.get("mountPath")).rstrip("/") for mount in job.spec.volume_mounts]
    if job.spec.security_context.get("readOnlyRootFilesystem") is True and "/tmp" not in places:
        path = ("spec", "securityContext", "readOnlyRootFilesystem")
        yield warning(path, "the launcher writes to /tmp, which is read-only then", "a volume emptyDir at /tmp")


RULES: tuple[Rule, ...] = (
    not_root_is_not_root,
    privileged_escalates,
    sshd_has_its_port,
    ssh_keys_fit_the_user,
    ssh_keys_stay_private,
    binding_is_let_through,
    somewhere_to_write,
)

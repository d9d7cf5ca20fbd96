"""MPI: mpirun's command line, and its ssh connections to the nodes.

The command line carries the variables: sshd does not pass a node's own variables to the processes that it starts. It
also carries ssh's options, because the operator overwrites the variables for them.
"""

from __future__ import annotations

from collections.abc import Mapping

from k8sel.entrypoint.protocol import ENVIRON, VARIABLE
from k8sel.facts.launchers import LAUNCHERS, MPIS, Mpi
from k8sel.facts.platforms import KUBERNETES, Platform
from k8sel.jobfile import oneccl
from k8sel.jobfile.complete import CompleteSpec
from k8sel.jobfile.defaults import is_root
from k8sel.planning import pod
from k8sel.planning.env import of_its_pod
from k8sel.planning.plan import Argv, Devices, MpiPlan

MASTER_PORT = "29500"  # torch's own default; below the kernel's ephemeral ports
# Every rank's variables beside the job file's. Unbuffered as under a PyTorchJob: hydra's pipes delay lines.
CONSTANTS = {"MASTER_PORT": MASTER_PORT, "PYTHONUNBUFFERED": "1"}

# $PATH and $LD_LIBRARY_PATH are the image's: sshd would pass its own to mpirun's daemon and to the ranks. A file passes
# the rest of the container's environment to the ranks' entrypoint. Only the user can read it: values may be secrets.
# mktemp makes a new file (O_EXCL, 0600) with a random name: with a hostPath at /dev/shm, the jobs of a node share it.
KEPT = "/dev/shm/k8sel.XXXXXX"  # writable in any container; removed with the pod
# Writes "NAME=VALUE" as one word of sshd's configuration, which is split at spaces: argv_split in OpenSSH's misc.c.
QUOTED = (
    r'q() { r=; s=$2; while h=${s%%[\\\"]*}; [ "$h" != "$s" ]; do s=${s#"$h"}; r=$r$h\\${s%"${s#?}"}; s=${s#?}; done;'
    r""" printf '"%s=%s" ' "$1" "$r$s"; };"""
)
SSHD = (
    f'mkdir -p -m 0755 /run/sshd 2>/dev/null; kept=$(mktemp {KEPT} 2>/dev/null) && cat /proc/self/environ > "$kept";'
    f' {QUOTED} exec /usr/sbin/sshd "$@"'
    ' -o "SetEnv=$(q PATH "$PATH")${LD_LIBRARY_PATH:+$(q LD_LIBRARY_PATH "$LD_LIBRARY_PATH")}'
    f'{ENVIRON}=$kept"'
)
# The nodes' command: it needs only /usr/sbin/sshd in the image, and no text of the job file becomes shell text.
SSHD_START = ("/bin/sh", "-c", SSHD, "sshd", "-De", "-f", "/dev/null")
SSHD_OPTIONS = (
    *("-o", "Port={port}", "-o", "HostKey={path}/id_rsa", "-o", "AuthorizedKeysFile={path}/authorized_keys"),
    *("-o", "StrictModes=no"),  # a Secret's files belong to root
    *("-o", "UsePAM=no", "-o", "PidFile=none"),
    *("-o", "PasswordAuthentication=no", "-o", "PermitRootLogin=prohibit-password"),
)
# Options of ssh, as one word: the operator creates new keys for each job, so no host key is known in advance.
SSH = (
    "-p {port} -i {path}/id_rsa -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR"
    " -o ConnectionAttempts=10"
)
# In mpi-operator's images, the sshd file has this capability: without it, a container cannot start sshd.
CAPABILITIES = ("NET_BIND_SERVICE",)
ROOT_CAPABILITIES = ("SETGID", "SETUID", "SYS_CHROOT")  # sshd isolates its code that runs before the login


def plan(spec: CompleteSpec, devices: Devices) -> MpiPlan:
    """Returns what the target needs for MPI."""
    return MpiPlan(
        implementation=spec.mpi.implementation,
        binding=spec.mpi.binding,
        slots_per_worker=spec.processes_per_node,
        ssh_port=spec.mpi.ssh_port,
        ssh_auth_mount_path=spec.mpi.ssh_auth_mount_path,
        sshd=_sshd(spec),
        launcher_pod=pod.launcher_pod(spec, devices),
        launcher_container=pod.launcher_container(spec),
    )


def capabilities(spec: CompleteSpec) -> tuple[str, ...]:
    """Returns the capabilities that a node's sshd needs."""
    if not LAUNCHERS[spec.launcher].uses_mpi:
        return ()
    return CAPABILITIES + ROOT_CAPABILITIES if is_root(spec) else CAPABILITIES


def launch(spec: CompleteSpec, platform: Platform, rank: Argv, fixed_env: Mapping[str, str]) -> Argv:
    """Returns mpirun's command line for all ranks, each with ``rank`` in front of the user's command."""
    binding = spec.mpi.binding or ""
    return (*_mpirun(spec, platform, spec.processes_per_node, binding, fixed_env), *rank, *spec.command)


def probe(spec: CompleteSpec, check: Argv) -> Argv:
    """Returns mpirun's command line for one ``check`` on each node."""
    return (*_mpirun(spec, KUBERNETES, 1, "", {}), *check)


def hostfile(spec: CompleteSpec) -> str:
    """Returns the path of the file in which the operator lists the nodes."""
    return MPIS[spec.mpi.implementation].hostfile[-1]


def _mpirun(spec: CompleteSpec, platform: Platform, per_node: int, binding: str, fixed_env: Mapping[str, str]) -> Argv:
    row = MPIS[spec.mpi.implementation]
    values = {
        "total": spec.nodes * per_node,
        "per_node": per_node,
        "cores": (spec.cpu.threads_per_process or 1) + oneccl.workers(spec),  # of one process
        "port": spec.mpi.ssh_port,
        "path": spec.mpi.ssh_auth_mount_path,
    }
    return (
        *(word.format(**values) for word in words(row, platform, binding)),
        *_exports(row, spec, platform),
        *(word.format(name=name, value=value) for name, value in fixed_env.items() for word in row.set),
    )


def words(row: Mpi, platform: Platform, binding: str) -> Argv:
    """Returns mpirun's words in front of the ranks' variables, with names in braces for what a job decides."""
    over_ssh = platform.over_ssh
    return (
        *(("env", *(f"{name}={SSH}" for name in row.ssh_env)) if over_ssh and row.ssh_env else ()),
        row.program,
        *row.root_flags,
        *(row.hostfile if over_ssh else row.local),
        *(row.count, "{total}"),
        *row.binding[binding],
        *((*row.ssh_flag, SSH) if over_ssh and row.ssh_flag else ()),
    )


def _exports(mpi: Mpi, spec: CompleteSpec, platform: Platform) -> Argv:
    """Returns the flags that export the ranks' variables.

    The entrypoint reads the variables that differ from pod to pod in the rank's own container.
    """
    entrypoint = spec.entrypoint.mode != "none"
    expected = (VARIABLE,) if entrypoint else ()
    own = (*expected, "MASTER_ADDR", *CONSTANTS, *oneccl.variables(spec))
    left = platform.over_ssh and entrypoint
    names = dict.fromkeys((*own, *(each.name for each in spec.env if not (left and of_its_pod(each)))))
    if mpi.export_list:
        return (mpi.export, ",".join(names))
    return tuple(word for name in names for word in (mpi.export, name))


def _sshd(spec: CompleteSpec) -> Argv:
    values = {"port": spec.mpi.ssh_port, "path": spec.mpi.ssh_auth_mount_path}
    return (*SSHD_START, *(word.format(**values) for word in SSHD_OPTIONS))

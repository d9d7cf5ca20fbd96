"""Checks the parts of a container that a program needs beside devices: shared memory, limits, the vendor's library.

``look`` reads the values, the other functions check them. A value that cannot be read is None, and is no problem.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.checks import Case, Finding
from k8sel.entrypoint.lean import record
from k8sel.entrypoint.machine import Machine, names, read, whole
from k8sel.entrypoint.protocol import Expectation
from k8sel.entrypoint.tables import Row

NO_LIMIT = -1
_FIELD = ("sharedMemory",)
# The default of Docker and containerd. NVIDIA/nccl user guide, "Shared memory": NCCL does not start without enough of
# it; pytorch/pytorch torch/csrc/DataLoader.cpp: workers die of SIGBUS.
DEFAULT_SHARED = 64 * 2**20
_ENOUGH = 0.95  # share of the job's shared memory: less than that is another size, not a rounded one
# systemd's default. A rank of many has sockets to many others (NVIDIA/nccl#550: 16 ranks on 2 nodes), and workers that
# load data send each tensor as an open file (pytorch/pytorch#973).
FEW_FILES, _FEW_RANKS = 1024, 8
# systemd's default is 8Mi, with which registering memory fails (NVIDIA/nccl-tests#206). No number is enough for every
# program (openucx/ucx#8090); half a GiB can be enough (openucx/ucx#7930).
LITTLE_LOCKED = 2**30
_IPC_LOCK = 14  # the capability that lifts this limit: include/uapi/linux/capability.h


@record(frozen=True)
class Surroundings:
    """The values of one container; those that are not known are None."""

    shared: int | None = None  # size of /dev/shm in bytes
    files: tuple[int, int] | None = None  # open files of a process: soft and hard limit
    locked: int | None = None  # bytes of memory that may be locked
    may_lock: bool = False  # may lock all memory, without a limit
    rdma: bool = False
    library: bool = True  # the loader finds the vendor's library, which every program needs for the devices


def look(row: Row, machine: Machine, environ: dict[str, str]) -> Surroundings:
    """Reads the values; it takes well under a millisecond."""
    limits = read(machine.proc, "self/limits")
    locked = _limit(limits, "Max locked memory")
    return Surroundings(
        shared=_shared(machine),
        files=_limit(limits, "Max open files"),
        locked=locked[0] if locked else None,
        may_lock=_capable(read(machine.proc, "self/status"), _IPC_LOCK),
        rdma=any(name.startswith("uverbs") for name in names(machine.dev, "infiniband")),
        library=row.library is None or _loads(row.library, machine, environ),
    )


def check(case: Case) -> Finding:
    """Compares this container with the job, and notes limits that are known to cause errors later."""
    expectation, here = case.expectation, look(case.row, case.machine, case.environ)
    unread = unknown(expectation, here)
    found = [*notes(expectation, case.row, here, len(case.found.devices)), *unread]
    return Finding(problems(expectation, here), found, _FIELD if unread else ())


def unchecked(case: Case) -> Finding:
    """Notes that ``sharedMemory`` was not compared (check: off)."""
    return Finding(unchecked=() if case.expectation.shared_memory is None else _FIELD)


def problems(expectation: Expectation, here: Surroundings) -> list[str]:
    """Refuses less shared memory than the job asks for."""
    expected, shared = expectation.shared_memory, here.shared
    if expected is None or shared is None or shared >= expected * _ENOUGH:
        return []
    found = f"/dev/shm of {_size(expected)} expected, {_size(shared) if shared else 'none'} found"
    return [f"{found}: check the volumes that are mounted there, and the memory of the pod and the node"]


def notes(expectation: Expectation, row: Row, here: Surroundings, devices: int) -> list[str]:
    """Notes limits that are known to cause errors later; ``devices``: the number found."""
    missing = devices and not here.library
    return [
        *_little_shared(expectation, here),
        *_few_files(max(expectation.nodes * expectation.processes_per_node, devices), here),
        *_little_locked(here),
        *([f"{row.library} is in no folder that programs load from: {row.libraryNeeds}"] if missing else []),
    ]


def _little_shared(expectation: Expectation, here: Surroundings) -> list[str]:
    processes, shared = expectation.processes_per_node, here.shared or 0
    if expectation.shared_memory is not None or processes == 1 or not 0 < shared <= DEFAULT_SHARED:
        return []
    return [
        f"/dev/shm has {_size(shared)} for {processes} processes, and collectives and data loading soon fill it: "
        "set sharedMemory: 8Gi, or --shm-size=8g"
    ]


def _few_files(ranks: int, here: Surroundings) -> list[str]:
    """Notes a low limit of open files; ``ranks``: the job's processes, or the node's devices, whichever are more."""
    if here.files is None or ranks <= _FEW_RANKS or not NO_LIMIT < here.files[0] <= FEW_FILES:
        return []
    soft, hard = here.files
    if NO_LIMIT < hard <= FEW_FILES:
        hint = "set --ulimit nofile=65536, or LimitNOFILE of the node's container runtime"
    else:
        most = "" if hard == NO_LIMIT else f", up to {hard}"
        hint = f"raise it in the program (ulimit -n, resource.setrlimit){most}"
    return [f"a process may open {soft} files, which is few among {ranks} processes or devices: {hint}"]


def _little_locked(here: Surroundings) -> list[str]:
    if not here.rdma or here.may_lock or here.locked is None or not NO_LIMIT < here.locked < LITTLE_LOCKED:
        return []
    return [
        f"{_size(here.locked)} of memory may be locked, and RDMA locks all that it sends: "
        "add capability IPC_LOCK in securityContext, or set --ulimit memlock=-1"
    ]


def unknown(expectation: Expectation, here: Surroundings) -> list[str]:
    """Notes that the job sets the shared memory, and that its size cannot be read."""
    if expectation.shared_memory is None or here.shared is not None:
        return []
    return [f"sharedMemory: {_size(expectation.shared_memory)} cannot be checked: /dev/shm cannot be read"]


def _size(number: int) -> str:
    from k8sel.entrypoint.checks import product

    return product.size(number)


def _shared(machine: Machine) -> int | None:
    try:
        found = os.statvfs(os.path.join(machine.dev, "shm"))
    except FileNotFoundError:
        return 0
    except OSError:
        return None
    return found.f_blocks * found.f_frsize


def _limit(limits: str, name: str) -> tuple[int, int] | None:
    """Reads soft and hard limit: ``Max open files            1024                 524288               files``."""
    words = next((line[len(name) :].split() for line in limits.splitlines() if line.startswith(name)), [])
    soft, hard = (_number(word) for word in (*words[:2], "", "")[:2])
    return None if soft is None or hard is None else (soft, hard)


def _number(word: str) -> int | None:
    return NO_LIMIT if word == "unlimited" else whole(word)


def _capable(status: str, capability: int) -> bool:
    """Reports if the effective capabilities of a process's status, ``CapEff:\t00000000a80425fb``, include this one."""
    word = next((line[7:].strip() for line in status.splitlines() if line.startswith("CapEff:")), "")
    try:
        return bool(int(word or "0", 16) >> capability & 1)
    except ValueError:
        return False


def _loads(library: str, machine: Machine, environ: dict[str, str]) -> bool:
    """Reports if the loader finds a library, without loading it: ld.so(8), and ldso/dynlink.c for musl."""
    if machine.lib:
        return os.path.exists(os.path.join(machine.lib, library))
    given = [folder for folder in environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    system = [f"/usr/lib/{os.uname().machine}-linux-gnu", "/usr/lib64", "/usr/lib", "/lib64", "/lib", "/usr/local/lib"]
    if any(os.path.exists(os.path.join(folder, library)) for folder in (*given, *system)):
        return True
    try:
        with open("/etc/ld.so.cache", "rb") as cache:
            return f"/{library}\0".encode() in cache.read()
    except OSError:
        return False

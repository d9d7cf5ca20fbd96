"""What is known of each launcher, and of each MPI: facts only, no decisions."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct

MPI_TABLE = Path(__file__).parent / "mpi.json"


class Launcher(Struct, frozen=True, kw_only=True, rename="camel"):
    """How a launcher places its processes."""

    title: str  # what it does, for people
    targets: tuple[str, ...]  # that can serve it; the first is the default
    per_device: bool  # starts one process for each device, unless the job file gives a number
    uses_mpi: bool = False
    restarts: bool = True  # starts processes again that have failed
    starts_one: bool = False  # on each node
    program: str | None = "torchrun"  # that starts a node's processes; None: nothing but the command
    # Without devices, the same: accelerate's own --cpu starts one process only.
    program_without_devices: str | None = "torchrun"
    env_without_devices: Mapping[str, str] = MappingProxyType({})
    warning: tuple[str, str] | None = None  # what another program than its own changes: message, hint
    warning_without_devices: tuple[str, str] | None = None
    ccl: Mapping[str, str] = MappingProxyType({})  # oneCCL's variables; those of mpirun are its MPI's


# Where no MPI is, there is only libfabric to send by, and torch's agent says each process's place on its node:
# uxlfoundation/oneCCL doc/rst/source/env-variables.rst, src/common/global/global.cpp (set_local_coord). Run with
# oneCCL 2022.1.2.
_BY_AGENT = MappingProxyType({"CCL_ATL_TRANSPORT": "ofi", "CCL_PROCESS_LAUNCHER": "torchrun"})
# A node's one process is its first.
_ALONE = MappingProxyType(
    {"CCL_ATL_TRANSPORT": "ofi", "CCL_LOCAL_RANK": "0", "CCL_LOCAL_SIZE": "1", "CCL_PROCESS_LAUNCHER": "none"}
)
_BY_TORCHRUN = (
    "deepspeed is started through torchrun: its own launcher sorts and renumbers devices",
    "the script reads LOCAL_RANK from its environment; it gets no --local_rank",
)


LAUNCHERS: Mapping[str, Launcher] = MappingProxyType(
    {
        "torchrun": Launcher(
            title="starts one process for each device, and gives each its LOCAL_RANK and RANK",
            targets=("PyTorchJob",),
            per_device=True,
            ccl=_BY_AGENT,
        ),
        "accelerate": Launcher(
            title="starts one process for each device, by `accelerate launch`",
            targets=("PyTorchJob",),
            per_device=True,
            program="accelerate",
            env_without_devices=MappingProxyType({"ACCELERATE_USE_CPU": "true"}),
            warning_without_devices=(
                "accelerate without devices is started through torchrun: "
                "accelerate launch --cpu starts one process only",
                "ACCELERATE_USE_CPU=true is set; nothing else changes",
            ),
            ccl=_BY_AGENT,
        ),
        "deepspeed": Launcher(
            title="starts one process for each device, by torchrun, which keeps the devices' order",
            targets=("PyTorchJob",),
            per_device=True,
            warning=_BY_TORCHRUN,
            warning_without_devices=_BY_TORCHRUN,
            ccl=_BY_AGENT,
        ),
        "mpirun": Launcher(
            title="starts one process for each device, over ssh: the image needs an MPI and sshd",
            targets=("MPIJob",),
            per_device=True,
            uses_mpi=True,
            restarts=False,
            program="mpirun",
            program_without_devices="mpirun",
        ),
        "python": Launcher(
            title="starts the command once on each node",
            targets=("PyTorchJob",),
            per_device=False,
            restarts=False,
            starts_one=True,
            program=None,
            program_without_devices=None,
            ccl=_ALONE,
        ),
    }
)


class Mpi(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """How one MPI's mpirun is spoken to."""

    program: str
    root_flags: tuple[str, ...]
    hostfile: tuple[str, ...]  # where the operator puts the nodes' names
    local: tuple[str, ...]  # instead of that, on this machine alone; {slots}
    count: str
    export: str  # sends variables of mpirun's own environment to the ranks
    export_list: bool  # all in one word, with commas; else the flag again for each
    set: tuple[str, ...]  # sends {name} with {value} to the ranks
    binding: dict[str, tuple[str, ...]]  # how many on each node ({per_node}), and bound to what ({cores}); "": unasked
    binding_capability: str | None  # without which a container runtime's own seccomp profile stops it from binding
    ccl: dict[str, str]  # oneCCL's variables that this MPI needs
    setvars: tuple[str, ...]  # scripts of the image that prepare it, where they are there
    says: str  # words of `program --version` that no other MPI says
    ssh_flag: tuple[str, ...]  # in front of ssh's options, as one word
    ssh_env: tuple[str, ...]  # variables that take ssh's options
    longest_prefix: int | None  # of a host's name, up to its first digit: what some versions can take
    rank: dict[str, str]  # torch's variable -> this MPI's
    source: str


MPIS: Mapping[str, Mpi] = MappingProxyType(msgspec.json.decode(MPI_TABLE.read_bytes(), type=dict[str, Mpi]))


def mpi_of(launcher: str, implementation: str | None) -> Mpi | None:
    """The MPI by which ``launcher`` starts processes; None where it does without."""
    return MPIS.get(implementation or "") if LAUNCHERS[launcher].uses_mpi else None

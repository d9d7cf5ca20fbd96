"""The facts about each launcher and each MPI. Decides nothing."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct

from k8sel.facts.kinds import JOB_KINDS, TargetName

MPI_TABLE = Path(__file__).parent / "mpi.json"


class Launcher(Struct, frozen=True, kw_only=True, rename="camel"):
    """The way in which a launcher places its processes."""

    title: str  # what it does, for people
    per_device: bool  # starts one process for each device by default
    uses_mpi: bool = False
    restarts: bool = True  # starts failed processes again
    starts_one: bool = False  # one process on each node
    program: str | None = "torchrun"  # starts a node's processes; None: the command starts alone
    program_without_devices: str | None = "torchrun"  # differs: accelerate's own --cpu starts one process only
    env_without_devices: Mapping[str, str] = MappingProxyType({})
    warning: tuple[str, str] | None = None  # message and hint: the effect of a program that is not the launcher's own
    warning_without_devices: tuple[str, str] | None = None
    ccl: Mapping[str, str] = MappingProxyType({})  # oneCCL's variables; mpirun's are in the row of its MPI

    @property
    def targets(self) -> tuple[TargetName, ...]:
        """The kinds of job that run it; the first is the default."""
        return tuple(row.kind for row in JOB_KINDS.values() if row.uses_mpi == self.uses_mpi)


# Without MPI, oneCCL can use only libfabric, and torch's agent sets each process's place on its node:
# uxlfoundation/oneCCL doc/rst/source/env-variables.rst, src/common/global/global.cpp (set_local_coord). Run with
# oneCCL 2022.1.2.
_BY_AGENT = MappingProxyType({"CCL_ATL_TRANSPORT": "ofi", "CCL_PROCESS_LAUNCHER": "torchrun"})
# The only process of a node is its first.
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
            per_device=True,
            ccl=_BY_AGENT,
        ),
        "accelerate": Launcher(
            title="starts one process for each device, by `accelerate launch`",
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
            per_device=True,
            warning=_BY_TORCHRUN,
            warning_without_devices=_BY_TORCHRUN,
            ccl=_BY_AGENT,
        ),
        "mpirun": Launcher(
            title="starts one process for each device, over ssh: the image needs an MPI and sshd",
            per_device=True,
            uses_mpi=True,
            restarts=False,
            program="mpirun",
            program_without_devices="mpirun",
        ),
        "python": Launcher(
            title="starts the command once on each node",
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
    """The options and variables of one MPI's mpirun."""

    program: str
    root_flags: tuple[str, ...]
    hostfile: tuple[str, ...]  # the option with the operator's file of the nodes' names
    local: tuple[str, ...]  # the option that replaces it on one machine; {slots}
    count: str
    export: str  # the flag that sends variables of mpirun's own environment to the ranks
    export_list: bool  # true: one word with commas; false: the flag once for each variable
    set: tuple[str, ...]  # the flag that sends {name} with {value} to the ranks
    binding: dict[str, tuple[str, ...]]  # binding -> flags, with {per_node} processes and {cores}; "": the default
    binding_capability: str | None  # binding needs it under a container runtime's own seccomp profile
    ccl: dict[str, str]  # oneCCL's variables that this MPI needs
    setvars: tuple[str, ...]  # scripts that prepare it, if the image has them
    says: str  # text in `program --version` that no other MPI prints
    ssh_flag: tuple[str, ...]  # in front of ssh's options, as one word
    ssh_env: tuple[str, ...]  # variables that take ssh's options
    longest_prefix: int | None  # the longest host name up to its first digit that all versions can take
    rank: dict[str, str]  # torch's variable -> this MPI's variable
    source: str


MPIS: Mapping[str, Mpi] = MappingProxyType(msgspec.json.decode(MPI_TABLE.read_bytes(), type=dict[str, Mpi]))


def mpi_of(launcher: str, implementation: str | None) -> Mpi | None:
    """The MPI by which ``launcher`` starts processes; None where it does without."""
    return MPIS.get(implementation or "") if LAUNCHERS[launcher].uses_mpi else None

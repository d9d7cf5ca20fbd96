"""The facts about each launcher and each MPI. Decides nothing."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct

from k8sel.facts.kinds import JOB_KINDS, TargetName

TABLE = Path(__file__).parent / "launchers.json"
MPI_TABLE = Path(__file__).parent / "mpi.json"


class Launcher(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The way in which a launcher places its processes."""

    title: str  # what it does, for people
    per_device: bool  # starts one process for each device by default
    uses_mpi: bool
    restarts: bool  # starts failed processes again
    starts_one: bool  # one process on each node
    program: str | None  # a row of PROGRAMS; None: an MPI starts the command, or nothing does
    program_without_devices: str | None
    env_without_devices: dict[str, str]
    warning: tuple[str, str] | None  # message and hint: the effect of a program that is not the launcher's own
    warning_without_devices: tuple[str, str] | None
    ccl: dict[str, str]  # oneCCL's variables; mpirun's are in the row of its MPI
    source: dict[str, str]  # field -> the sources of its fact

    @property
    def targets(self) -> tuple[TargetName, ...]:
        """The kinds of job that run it; the first is the default."""
        return tuple(row.kind for row in JOB_KINDS.values() if row.uses_mpi == self.uses_mpi)


class Program(Struct, frozen=True, kw_only=True, rename="camel"):
    """The command line of a program that starts a node's processes, up to the command of one process.

    Options in braces are replaced: {processes} of a node, {total}, {nodes}, and the group's {rank}, {address}, {port}.
    """

    words: tuple[str, ...]
    several: tuple[str, ...] = ()  # added where the job has several processes
    alone: tuple[str, ...] = ()  # added where no operator describes the group
    options: tuple[str, ...]
    restarts: str  # the option with the number of restarts, if there are any
    no_python: str  # the option in front of a command that is no Python script
    always_agent: bool  # torch's agent starts the processes; False: only several of them
    source: dict[str, str]  # field -> the sources of its fact


PROGRAMS: Mapping[str, Program] = MappingProxyType(
    {
        # A flag would override the operator's PET_ variables, so only the number of processes is one.
        "torchrun": Program(
            words=("torchrun",),
            alone=("--standalone",),
            options=("--nproc-per-node", "{processes}"),
            restarts="--max-restarts",
            no_python="--no-python",
            always_agent=True,
            source={
                "alone": "pypi.org/project/torch@2.15.0 torch/distributed/run.py, main (2026-11-22)",
                "options": "pypi.org/project/torch@2.15.0 torch/distributed/run.py, get_args_parser (2026-11-22)",
                "restarts": "pypi.org/project/torch@2.15.0 torch/distributed/run.py, get_args_parser (2026-11-22)",
                "noPython": "pypi.org/project/torch@2.15.0 torch/distributed/run.py, get_args_parser (2026-11-22)",
            },
        ),
        # accelerate reads a number that is missing from PET_ variables, from files of the image, or counts devices.
        "accelerate": Program(
            words=("accelerate", "launch"),
            several=("--multi_gpu",),  # means any accelerator; refused for one process
            options=(
                *("--num_processes", "{total}", "--num_machines", "{nodes}", "--machine_rank", "{rank}"),
                *("--main_process_ip", "{address}", "--main_process_port", "{port}"),
                *("--rdzv_backend", "static", "--same_network"),
                *("--gpu_ids", "all"),  # leaves the mask alone
            ),
            restarts="--max_restarts",
            no_python="--no_python",
            always_agent=False,
            source={
                "several": "pypi.org/project/accelerate@1.15.0 accelerate/commands/launch.py, "
                "_validate_launch_command (2026-11-22)",
                "options": "pypi.org/project/accelerate@1.15.0 accelerate/utils/launch.py, prepare_multi_gpu_env: "
                "num_processes counts all nodes (2026-11-22)",
                "restarts": "pypi.org/project/accelerate@1.15.0 accelerate/commands/launch.py (2026-11-22)",
                "noPython": "pypi.org/project/accelerate@1.15.0 accelerate/commands/launch.py (2026-11-22)",
            },
        ),
    }
)


class Mpi(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """The options and variables of one MPI's mpirun."""

    program: str
    root_flags: tuple[str, ...]
    hostfile: tuple[str, ...]  # the option with the operator's file of the nodes' names
    local: tuple[str, ...]  # the options that replace it on one machine, with {per_node} processes
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
    source: dict[str, str]  # field -> the sources of its fact


LAUNCHERS: Mapping[str, Launcher] = MappingProxyType(msgspec.json.decode(TABLE.read_bytes(), type=dict[str, Launcher]))
MPIS: Mapping[str, Mpi] = MappingProxyType(msgspec.json.decode(MPI_TABLE.read_bytes(), type=dict[str, Mpi]))


def mpi_of(launcher: str, implementation: str) -> Mpi | None:
    """The MPI by which ``launcher`` starts processes; None where it does without."""
    return MPIS[implementation] if LAUNCHERS[launcher].uses_mpi else None

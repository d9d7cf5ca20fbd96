"""The platforms: where k8sel starts a job. A row says what a platform has; code asks the row, not the name."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import msgspec
from msgspec import Struct
from msgspec.structs import replace

TABLE = Path(__file__).parent / "platforms.json"


class Platform(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One place where a job starts."""

    name: str = ""  # the row's key
    place: str | None  # where the processes are, for people; None: in the pods of the target
    in_container: bool  # each node is a container of the job's image
    exposes: bool  # k8sel gives the chosen devices to the container, by the host's numbers
    knows_machine: bool  # k8sel runs on the machine of the job: it can count sockets and look for devices
    operator_env: bool  # each node finds its place in the group in its environment, as an operator writes it
    over_ssh: bool  # mpirun starts the processes of other nodes over ssh, with the mpi-operator's keys
    several_nodes: bool  # a job may have more than one node


_ROWS = msgspec.json.decode(TABLE.read_bytes(), type=dict[str, Platform])
PLATFORMS: Mapping[str, Platform] = MappingProxyType({name: replace(row, name=name) for name, row in _ROWS.items()})
KUBERNETES = PLATFORMS["kubernetes"]

"""The platforms: where k8sel starts a job. A row says what a platform has; code asks the row, not the name."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from msgspec import Struct


class Platform(Struct, frozen=True, kw_only=True):
    """One place where a job starts."""

    name: str
    place: str | None  # where the processes are, for people; None: in the pods of the target
    in_container: bool  # each node is a container of the job's image
    exposes: bool  # k8sel gives the chosen devices to the container, by the host's numbers
    knows_machine: bool  # k8sel runs on the machine of the job: it can count sockets and look for devices
    operator_env: bool  # each node finds its place in the group in its environment, as an operator writes it
    over_ssh: bool  # mpirun starts the processes of other nodes over ssh, with the mpi-operator's keys
    several_nodes: bool  # a job may have more than one node


PLATFORMS: Mapping[str, Platform] = MappingProxyType(
    {
        row.name: row
        for row in (
            Platform(
                name="kubernetes",
                place=None,
                in_container=True,
                exposes=False,
                knows_machine=False,
                operator_env=True,
                over_ssh=True,
                several_nodes=True,
            ),
            Platform(
                name="docker",
                place="containers on this machine",
                in_container=True,
                exposes=True,
                knows_machine=True,
                operator_env=True,
                over_ssh=False,
                several_nodes=True,
            ),
            Platform(
                name="run",
                place="on this machine",
                in_container=False,
                exposes=False,
                knows_machine=True,
                operator_env=False,
                over_ssh=False,
                several_nodes=False,
            ),
        )
    }
)
KUBERNETES = PLATFORMS["kubernetes"]

"""The accelerator table, typed: a closed row for each kind of device. Facts and sources are in the data file."""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec

TABLE = Path(__file__).parent / "accelerators.json"


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One kind of device; None is "has no such thing"."""

    name: str = ""  # the row's key
    title: str
    in_container: bool  # can be given to a container at all
    resource_name: str | None
    resource_pattern: str | None  # the whole of other resource names that are this device too
    product_label: str | None
    memory_label: str | None  # MiB of one device, in whole numbers
    exposure_env: str | None  # which of the host's devices enter the container: a set
    exposure_hide: dict[str, str]
    docker_driver: str | None  # of the device request that exposes chosen devices
    docker_runtime: str | None  # which reads exposure_env instead
    docker_nodes: tuple[str, ...]  # device nodes: one for all; {n}: by number; *: one a device, by PCI address
    docker_pci_vendor: str | None  # whose nodes a * means
    docker_env: dict[str, str]
    docker_cap_add: tuple[str, ...]
    docker_needs: str | None  # what a machine that cannot expose them lacks
    docker_cdi: str | None  # the kind of their CDI devices: KIND={n} by number, KIND alone by the node that one brings
    docker_cdi_needs: str | None  # what a machine without such CDI devices lacks
    owned_env: tuple[str, ...]  # not the job file's to set
    discovery: str
    mask_env: str | None  # which of the container's devices a process sees
    mask_value: Literal["uuid", "index", "module", "range"] | None
    mask_ordered: bool  # the mask's order is the processes' order
    mask_hide: dict[str, str]
    library: str | None  # the vendor's own, which comes with the driver or its runtime, and never with torch
    library_needs: str | None  # what brings it
    order_env: dict[str, dict[str, str]]  # order -> what makes numbers count that way
    note: str
    source: dict[str, str]  # field -> where its fact is from

    @property
    def is_device(self) -> bool:
        """Whether there is anything to allot or to mask."""
        return self.mask_env is not None

    @property
    def in_docker(self) -> bool:
        """Whether it is known how chosen devices enter a container of Docker's."""
        return bool(self.docker_driver or self.docker_runtime or self.docker_nodes or self.docker_cdi)

    @property
    def cdi_alone(self) -> bool:
        """Whether CDI is the one way into a container of Docker's that is known."""
        return bool(self.docker_cdi) and not (self.docker_driver or self.docker_runtime or self.docker_nodes)


def read(table: bytes) -> Mapping[str, Row]:
    """The rows in ``table``. Raises msgspec.ValidationError on an unknown or missing field."""
    rows = msgspec.json.decode(table, type=dict[str, Row])
    return MappingProxyType({name: msgspec.structs.replace(row, name=name) for name, row in rows.items()})


ROWS = read(TABLE.read_bytes())


def by_name(name: str) -> Row:
    """The row called ``name``. Raises KeyError, which names the rows there are."""
    if name not in ROWS:
        raise KeyError(f"no accelerator {name!r}: there are {', '.join(ROWS)}")
    return ROWS[name]


def without_devices() -> Row:
    """The first row that has none: what computes where no device is used."""
    return next(row for row in ROWS.values() if row.in_container and not row.is_device)


def owned_env() -> Mapping[str, str]:
    """Each variable that a row owns -> that row's name (the first, where several do)."""
    return {variable: row.name for row in reversed(tuple(ROWS.values())) for variable in row.owned_env}


def hide_env() -> Mapping[str, str]:
    """What hides the devices of every row that knows how."""
    hidden: dict[str, str] = {}
    for row in ROWS.values():
        hidden |= row.exposure_hide | row.mask_hide
    return hidden

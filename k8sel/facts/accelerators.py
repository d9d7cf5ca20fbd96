"""The types of the accelerator table: a row for each kind of device. The data file has the facts and their sources."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Literal

import msgspec

from k8sel.entrypoint import masks, tables

TABLE = Path(__file__).parent / "accelerators.json"


class Row(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One kind of device; None means that it has no such thing."""

    name: str = ""  # the row's key
    title: str
    in_container: bool  # can be given to a container at all
    resource_name: str | None
    resource_pattern: str | None  # matches other resource names of this device as a whole
    resources_ended: tuple[str, ...] = ()  # names that match, and that no plugin of today serves
    product_label: str | None
    memory_label: str | None  # MiB of one device, in whole numbers
    exposure_env: str | None  # the variable that selects the host's devices for the container: a set
    host_env: str | None = None  # the same by the mask's own numbers, for pods; None: exposure_env counts as the mask
    exposure_hide: dict[str, str]
    runtime_class: str | None = None  # the RuntimeClass whose runtime reads exposure_env, where it is not the default
    docker_driver: str | None  # the driver of the device request that exposes chosen devices
    docker_runtime: str | None  # the runtime that reads exposure_env instead
    docker_nodes: tuple[str, ...]  # device nodes: one for all; {n}: by number; *: one a device, by PCI address
    docker_pci_vendor: str | None  # the vendor whose nodes a * matches
    docker_env: dict[str, str]
    docker_cap_add: tuple[str, ...]
    docker_needs: str | None  # the requirements of a machine that exposes them
    docker_cdi: str | None  # the kind of their CDI devices: KIND={n} by number, KIND alone by device node
    docker_cdi_needs: str | None  # the requirements of a machine with such CDI devices
    owned_env: tuple[str, ...]  # variables that the job file may not set
    discovery: str
    mask_env: str | None  # the mask: the variable that selects the devices that a process sees
    mask_value: Literal["uuid", "index", "module", "range"] | None
    mask_ordered: bool  # the mask's order is the processes' order
    groups: tuple[tuple[int, ...], ...] = ()  # the mask's numbers that the vendor documents as groups; (): any
    mask_hide: dict[str, str]
    exclusive: bool | None  # one process alone can use a device: it opens or reserves all that its mask shows
    unit: str | None  # the part of a device that a process of torch's agent gets from the framework's plugin
    unit_counts: tuple[int, ...]  # how many of them a device may have
    unit_whole: dict[str, str]  # variables with which the plugin leaves one process all units
    part_env: dict[str, str]  # variables that a process with some of the node's devices needs, with the values for one
    ignored_env: tuple[str, ...]  # variables of owned_env that have no effect beside the mask
    harmless_env: dict[str, tuple[str, ...]]  # variable of owned_env -> its terms that select every device
    library: str | None  # the vendor's library, which comes with the driver or its runtime, and never with torch
    library_needs: str | None  # the package that has it
    order_env: dict[str, dict[str, str]]  # order -> the variables that number devices in this order
    note: str
    source: dict[str, str]  # field -> the source of its fact

    @property
    def at_start(self) -> tables.Row:
        """The fields that the entrypoint reads, as it reads them."""
        fields = dict(zip(self.__struct_encode_fields__, msgspec.structs.astuple(self), strict=True))
        return tables.Row(self.name, *(fields[field] for field in tables.FIELDS))

    @property
    def is_device(self) -> bool:
        """True if the row has devices that a mask selects."""
        return self.mask_env is not None

    @property
    def in_docker(self) -> bool:
        """True if the table has a way to expose chosen devices in Docker."""
        return bool(self.docker_driver or self.docker_runtime or self.docker_nodes or self.docker_cdi)

    @property
    def cdi_alone(self) -> bool:
        """True if CDI is the only way to expose chosen devices in Docker."""
        return bool(self.docker_cdi) and not (self.docker_driver or self.docker_runtime or self.docker_nodes)


def read(table: bytes) -> Mapping[str, Row]:
    """The rows in ``table``. Raises msgspec.ValidationError on an unknown or missing field."""
    rows = msgspec.json.decode(table, type=dict[str, Row])
    return MappingProxyType({name: msgspec.structs.replace(row, name=name) for name, row in rows.items()})


ROWS = read(TABLE.read_bytes())


def by_name(name: str) -> Row:
    """The row called ``name``. Raises KeyError with the names of all rows."""
    if name not in ROWS:
        raise KeyError(f"no accelerator {name!r}: there are {', '.join(ROWS)}")
    return ROWS[name]


def without_devices() -> Row:
    """The first row without devices: it computes where the job uses no device."""
    return next(row for row in ROWS.values() if row.in_container and not row.is_device)


def owned_env() -> Mapping[str, str]:
    """Each owned variable, with the name of the first row that owns it."""
    return {variable: row.name for row in reversed(tuple(ROWS.values())) for variable in row.owned_env}


def harmless_env() -> Mapping[str, Sequence[str]]:
    """Each owned variable that some values select no device with, and the terms of these values."""
    return {variable: terms for row in ROWS.values() for variable, terms in row.harmless_env.items()}


def hide_env() -> Mapping[str, str]:
    """The variables that hide the devices of all rows."""
    return masks.hidden(row.exposure_hide | row.mask_hide for row in ROWS.values())

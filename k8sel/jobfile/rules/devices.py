"""Rules for devices: their numbers fit the type's row of the table and the number of processes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from k8sel.entrypoint import masks
from k8sel.errors import Problem
from k8sel.facts.accelerators import ROWS, Row
from k8sel.facts.launchers import LAUNCHERS
from k8sel.facts.platforms import Platform
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.rules.common import LABEL_RULE, LABEL_VALUE, rules_in
from k8sel.wording import did_you_mean, duplicate, forbidden, invalid, not_supported, numbers, quote

# The form of a model's name, and its type.
_PRODUCTS = (
    (r"(A|B|GB|GH|H|K|L|P|T|V)[0-9]{1,3}S?|RTX.*", "cuda"),
    (r"MI[0-9]{2,3}[AX]?", "rocm"),
    (r"(TRN|INF|TRAINIUM|INFERENTIA)[0-9]*", "neuron"),
)
AUTO = "auto"  # the machine's own kind of device
HERE = ("spec", "accelerator")
_OWN_MASK = ", or isolation: process, which gives each process a mask of its own"


def _row(job: CompleteJob) -> Row | None:
    return ROWS.get(job.spec.accelerator.type)


def _device_row(job: CompleteJob) -> Row | None:
    """Returns the type's row if the type has devices to count; else None."""
    row = _row(job)
    return row if row and row.is_device else None


def known_type(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a type that the table does not list, and `auto` where k8sel does not see the machine."""
    name, path = job.spec.accelerator.type, (*HERE, "type")
    types = [row.name for row in ROWS.values() if row.in_container or not platform.in_container]
    if name == AUTO and platform.in_container:
        message = "type auto works only with `k8sel run`, which sees the machine's devices"
        yield forbidden(path, message, f"use one of {', '.join(types)}")
    elif name != AUTO and name not in ROWS:
        yield not_supported(path, name, types, type_meant(name, types))


def type_meant(name: str, types: Sequence[str]) -> str:
    """Returns a hint: the types whose title has the word ``name``, the type of a model, or the nearest type."""
    titled = [each for each in types if name.lower() in re.findall(r"\w+", ROWS[each].title.lower())]
    if titled:
        return f"did you mean {' or '.join(titled)}?"
    product = next((kind for form, kind in _PRODUCTS if re.fullmatch(form, name.upper())), None)
    return f"use {product}, and name the model in product" if product in types else did_you_mean(name, types)


def in_a_container(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a type whose devices no container can use."""
    row = _row(job)
    if row and not row.in_container and platform.in_container:
        message = f"{row.title} cannot be used in a container"
        yield forbidden((*HERE, "type"), message, "use `k8sel run`, or another type")


def no_devices_to_name(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a number or a list of devices for a type without devices."""
    row, accelerator = _row(job), job.spec.accelerator
    if row and not row.is_device and row.in_container and (accelerator.count or accelerator.devices):
        counted = range(accelerator.count)
        named = accelerator.devices and list(accelerator.devices) != list(counted)
        wanted = f"lists {list(accelerator.devices)}" if named else f"requests {_some(len(counted))}"
        message = f"type {row.name} has no devices, but the file {wanted}"
        yield forbidden(HERE, message, "leave count and devices out")


def _some(number: int) -> str:
    return "1 device" if number == 1 else f"{number} devices"


def enough_devices(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a device number that is not below ``count``: the node requests only ``count`` devices."""
    accelerator = job.spec.accelerator
    count, devices = accelerator.count, accelerator.devices
    row, least = _row(job), masks.needed(devices)
    if least <= count or (row and not row.is_device):
        return
    top = least - 1
    fits = len(devices) <= count and len(set(devices)) == len(devices)
    other = f", or devices: {numbers(_ranks(devices))}" if fits else ""
    message = f"count is {count}, but device {top} needs a count above {top}"
    yield invalid((*HERE, "devices", devices.index(top)), message, f"count: {least}{other}")


def _ranks(devices: Sequence[int]) -> list[int]:
    """Returns the same order among the first devices: ``[5, 2]`` becomes ``[1, 0]``."""
    ordered = sorted(devices)
    return [ordered.index(device) for device in devices]


def each_device_once(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a device that the list names twice: each device belongs to one process."""
    devices = job.spec.accelerator.devices
    for index, device in enumerate(devices):
        if device in devices[:index]:
            message = f"device {device} is already in devices[{devices.index(device)}]"
            yield duplicate((*HERE, "devices", index), message, "name each device once")


def equal_shares(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses devices that do not divide equally: isolation `process` gives each process the same number."""
    processes, devices = job.spec.processes_per_node, job.spec.accelerator.devices
    if len(devices) > processes and masks.unequal(devices, processes, job.spec.accelerator.isolation):
        message = f"{len(devices)} devices cannot be divided equally among {processes} processes"
        possible = [number for number in range(1, len(devices) + 1) if len(devices) % number == 0]
        yield invalid(("spec", "processesPerNode"), message, f"use one of {', '.join(map(str, possible))}")


def mask_order(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses an order of devices where the mask is a set: the driver then orders the devices itself."""
    row, devices = _device_row(job), job.spec.accelerator.devices
    if row and masks.unordered(row.at_start, _shares(job)):
        message = f"{row.mask_env} cannot order devices: the processes would see {numbers(sorted(devices))}"
        other = "" if job.spec.accelerator.isolation == "process" or _by_unit(job) else _OWN_MASK
        hint = f"devices: {numbers(sorted(devices))}{other}"
        yield invalid((*HERE, "devices"), message, hint)


def _by_unit(job: CompleteJob) -> bool:
    """Reports whether the framework's plugin gives each process of torch's agent a unit, whatever the mask says."""
    row, spec = _row(job), job.spec
    return bool(row and row.unit) and LAUNCHERS[spec.launcher].restarts and spec.processes_per_node > 1


def _shares(job: CompleteJob) -> list[tuple[int, ...]]:
    """Returns the devices that each process of a node sees."""
    accelerator, processes = job.spec.accelerator, job.spec.processes_per_node
    return masks.shares(accelerator.devices, processes, accelerator.isolation)


def mask_without_a_gap(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a gap between the devices of a process where the mask is one range of numbers.

    Devices that the host's numbers select have no gap inside the container.
    """
    row, accelerator = _device_row(job), job.spec.accelerator
    if not row or row.mask_value != "range" or platform.exposes or accelerator.allocation == "host" or _by_unit(job):
        return
    if any(share and max(share) - min(share) >= len(share) for share in _shares(job)):
        message = f"{row.mask_env} holds one range, but devices {numbers(sorted(accelerator.devices))} have a gap"
        other = "" if accelerator.isolation == "process" else _OWN_MASK
        yield invalid((*HERE, "devices"), message, f"choose devices without a gap{other}")


def order_is_known(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses an order of devices that the type's driver does not offer."""
    row, order = _row(job), job.spec.accelerator.order
    if row and order != "pci" and order not in row.order_env:
        hint = f"write order: pci, the only order of type {row.name}"
        yield not_supported((*HERE, "order"), order, row.order_env or ["pci"], hint)


def resource_is_the_rows(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a resource that is not a name for the type's devices."""
    resource, row, path = job.spec.accelerator.resource, _row(job), (*HERE, "resource")
    if not row or resource is None:
        return
    if row.resource_pattern is None:
        yield forbidden(path, f"type {row.name} has no devices to request", "leave it out")
    elif not re.fullmatch(row.resource_pattern, resource):
        others = [name for name, other in ROWS.items() if re.fullmatch(other.resource_pattern or "", resource)]
        hint = f"write type: {others[0]}" if others else f"use {row.resource_name}, or another name of its plugin"
        yield invalid(path, f"{quote(resource)} is not a resource of type {row.name}", hint)
    elif resource in row.resources_ended:
        message = f"no plugin serves {resource} any longer, so the job would stay Pending"
        yield invalid(path, message, f"resource: {row.resource_name}")


def product_is_labelled(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a product that cannot be the value of a node's label."""
    row, accelerator = _row(job), job.spec.accelerator
    for index, product in enumerate(accelerator.product):
        if not re.fullmatch(LABEL_VALUE, product):
            yield invalid((*HERE, "product", index), f"{quote(product)}: {LABEL_RULE}", _product_hint(row))


def _product_hint(row: Row | None) -> str:
    label = row.product_label if row else None
    return f"run `kubectl get nodes -L {label}` to see the values" if label else ""


def one_machine(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses chosen devices for several nodes on one machine.

    `docker` gives each node its own part of the machine's devices, so the file cannot choose them.
    """
    accelerator = job.spec.accelerator
    if platform.exposes and job.spec.nodes > 1 and accelerator.devices != tuple(range(accelerator.count)):
        message = "devices cannot be chosen for several nodes on one machine: each node gets its own part of them"
        yield forbidden((*HERE, "devices"), message, "write only count, or nodes: 1")


RULES = rules_in(globals())

"""Traps of the devices that a pod gets, and of the masks that select among them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from k8sel.adopt.manifest.reader import Container, Manifest, Variable, dig, mapping, positions, resources, row_of
from k8sel.audit.trap import Found, trap
from k8sel.entrypoint.masks import beside, needed, unordered
from k8sel.facts.accelerators import ROWS, Row

_PLUGIN = "NVIDIA/k8s-device-plugin README.md, internal/plugin/server.go"
_KUBELET = "kubernetes/kubernetes pkg/kubelet/kubelet_pods.go (GenerateRunContainerOptions)"
_CUDA = "docs.nvidia.com CUDA programming guide, CUDA environment variables"
_LEVEL_ZERO = "oneapi-src/level-zero-spec scripts/core/PROG.rst, Affinity Mask"
_RESOURCES = "kubernetes/kubernetes pkg/apis/core/validation/validation.go (ValidateResourceRequirements)"


@trap(
    id="exposure-beside-request",
    looks_at="a variable that exposes devices, beside a request for them",
    consequence="the pod's value overrides the device plugin's: the container gets devices of other pods, or none",
    fix="leave the variable out, and use a mask to select among the allocated devices",
    source=f"{_KUBELET}; {_PLUGIN}",
)
def _beside_request(manifest: Manifest) -> Iterator[Found]:
    for container in manifest.containers:
        for each in container.requested:
            variable = container.env.get(each.row.exposure_env or "")
            if variable and variable.value not in ("void", ""):
                yield variable.path, f"{each.row.exposure_env}={variable.value} beside {each.resource}: {each.count}"


@trap(
    id="exposure-without-request",
    looks_at="a variable that exposes devices, in a container that requests none",
    consequence="where the runtime reads it, the container sees devices that are allocated to other pods",
    fix="set it to void, or request devices",
    source="NVIDIA/nvidia-container-toolkit cmd/nvidia-container-runtime/README.md",
)
def _all_without_request(manifest: Manifest) -> Iterator[Found]:
    for container in manifest.containers:
        for row in ROWS.values():
            variable = container.env.get(row.exposure_env or "")
            if variable and variable.value not in ("void", "none", "") and not _requests(container, row):
                yield variable.path, f"{row.exposure_env}={variable.value}, and the container requests no device"


def _requests(container: Container, row: Row) -> bool:
    return any(each.row is row for each in container.requested)


def _masks(manifest: Manifest) -> Iterator[tuple[Container, Row, str, Variable, list[str]]]:
    """Yields each mask: its container, row, name, variable and parts."""
    for container in manifest.containers:
        requested = [each.row for each in container.requested]
        for name, variable in container.variables.items():
            rows = [row for row in (*requested, *ROWS.values()) if row.mask_env == name]
            if rows:
                yield container, rows[0], name, variable, [part.strip() for part in variable.value.split(",")]


@trap(
    id="mask-numbers-mig",
    looks_at="a mask of numbers over parts of GPUs",
    consequence="a process uses at most one part of a GPU, and numbers do not say which: parts are named by UUID",
    fix="leave the mask out and start one process for each part, or write UUIDs when the container starts",
    source="docs.nvidia.com MIG user guide, device names",
)
def _numbers_of_mig(manifest: Manifest) -> Iterator[Found]:
    for container, row, name, variable, listed in _masks(manifest):
        parts = [each for each in container.requested if "mig" in each.resource]
        if parts and row.mask_value == "uuid" and all(map(str.isdecimal, listed)):
            yield variable.path, f"{name}={variable.value} beside {parts[0].resource}"


@trap(
    id="mask-beyond-count",
    looks_at="a mask with numbers of the host",
    consequence="a container numbers its devices from 0: a number beyond them hides itself and all after it",
    fix="use numbers below the requested count",
    source=_CUDA,
)
def _beyond_count(manifest: Manifest) -> Iterator[Found]:
    for container, row, name, variable, listed in _masks(manifest):
        count = sum(each.count for each in container.requested if each.row is row)
        if 0 < count < needed(positions(listed)) and row.mask_value != "module":
            yield variable.path, f"{name}={variable.value}, and the container has {count} devices, from 0 on"


@trap(
    id="mask-has-no-order",
    looks_at="an unsorted mask of a vendor whose masks are sets",
    consequence="the driver keeps its own order: the first device is the lowest number, not the first in the mask",
    fix="write ascending numbers; give each process a mask of its own where the order matters",
    source=_LEVEL_ZERO,
)
def _unordered(manifest: Manifest) -> Iterator[Found]:
    for _, row, name, variable, listed in _masks(manifest):
        if unordered(row.at_start, [positions(listed)]):
            yield variable.path, f"{name}={variable.value}"


@trap(
    id="mask-twice",
    looks_at="a mask that names a device twice",
    consequence="the meaning is undefined; torch counts no device at all",
    fix="name each device once",
    source="pytorch/pytorch torch/cuda/__init__.py (_parse_visible_devices)",
)
def _twice(manifest: Manifest) -> Iterator[Found]:
    for _, _, name, variable, listed in _masks(manifest):
        if len(set(listed)) < len(listed):
            yield variable.path, f"{name}={variable.value} names a device twice"


@trap(
    id="mask-hides-nothing",
    looks_at="an empty mask of a vendor for whom empty does not mean none",
    consequence="an empty mask means every device here",
    fix="request no devices, or write that vendor's value for none",
    source=f"ROCm/clr hipamd; {_LEVEL_ZERO}",
)
def _hides_nothing(manifest: Manifest) -> Iterator[Found]:
    for _, row, name, variable, _ in _masks(manifest):
        if variable.value == "" and row.mask_hide.get(name) != "":
            yield variable.path, f"{name} is empty"


@trap(
    id="masks-count-twice",
    looks_at="several masks of one vendor",
    consequence="the second mask numbers the devices that the first one leaves, from 0",
    fix="use one mask",
    source="ROCm/ROCm docs, GPU isolation techniques",
)
def _several_masks(manifest: Manifest) -> Iterator[Found]:
    for container in manifest.containers:
        for row in dict.fromkeys(each.row.name for each in container.requested):
            names = _selecting(container, ROWS[row])
            if len(names) > 1:
                yield container.variables[names[1]].path, f"{' and '.join(names)} both choose devices"


def _selecting(container: Container, row: Row) -> list[str]:
    """Returns the variables that select devices, in their order: the mask, and those with an effect beside it."""
    given = {name: variable.value for name, variable in container.variables.items()}
    others = beside(row.at_start, given)
    if row.mask_env not in given:
        others += [name for name in row.ignored_env if name in given]
    return [name for name in given if name == row.mask_env or name in others]


@trap(
    id="requests-not-limits",
    looks_at="an extended resource whose request differs from its limit",
    consequence="the API server refuses the pod; a PyTorchJob is accepted, and its pods never appear",
    fix="write the same number in limits, or limits alone",
    source=_RESOURCES,
)
def _requests_differ(manifest: Manifest) -> Iterator[Found]:
    for container in manifest.containers:
        requests, limits = (mapping(dig(container.data, "resources", field)) for field in ("requests", "limits"))
        for resource in (*requests, *(name for name in limits if name not in requests)):
            if row_of(str(resource)) is None:
                continue
            path = (*container.path, "resources", "requests", resource)
            if resource in requests and str(requests[resource]) != str(limits.get(resource)):
                yield path, f"requests has {resource}: {requests[resource]}, limits {limits.get(resource, 'none')}"


@trap(
    id="part-of-a-device",
    looks_at="an extended resource that is not a whole number",
    consequence="the API server refuses the pod: extended resources are whole numbers",
    fix="write a whole number; shared devices have a resource of their own",
    source=_RESOURCES,
)
def _fractions(manifest: Manifest) -> Iterator[Found]:
    for container in manifest.containers:
        for row, name, amount, path in resources(container.data, container.path):
            if row and not re.fullmatch(r"[0-9]+", str(amount)):
                yield path, f"{name}: {amount}"

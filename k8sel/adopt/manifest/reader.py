"""Reads manifests into roles, pods, containers and the programs that these start. Judges nothing.

A value of the wrong type counts as absent, because the API server reports it better.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from msgspec import Struct

from k8sel.adopt.manifest.started import Started, started
from k8sel.errors import FieldPath
from k8sel.facts.accelerators import ROWS, Row
from k8sel.jobfile.yamlio import Document

# Kind -> the path of the pods' templates; in REPLICAS, of a mapping from roles to templates.
REPLICAS = {"PyTorchJob": ("spec", "pytorchReplicaSpecs"), "MPIJob": ("spec", "mpiReplicaSpecs")}
TEMPLATES = {"Job": ("spec", "template", "spec"), "Pod": ("spec",)}
KINDS = (*REPLICAS, *TEMPLATES)
_DIGITS, _BEYOND = 9, 10**9  # digits of a number, and a number above all of them


class Variable(Struct, frozen=True, kw_only=True):
    """An environment variable with a value, and the path of its entry."""

    value: str
    path: FieldPath


class Requested(Struct, frozen=True, kw_only=True):
    """An extended resource that a container requests."""

    row: Row
    resource: str
    count: int
    path: FieldPath


class Container(Struct, frozen=True, kw_only=True):
    """A container of a pod."""

    name: str
    path: FieldPath
    data: Mapping[str, Any]
    env: Mapping[str, Variable]
    starts: Started | None
    requested: tuple[Requested, ...]

    @property
    def variables(self) -> Mapping[str, Variable]:
        """The container's variables, and those that its shell command sets."""
        own = self.starts.env if self.starts else {}
        path = self.starts.path if self.starts else self.path
        return {**self.env, **{name: Variable(value=value, path=path) for name, value in own.items()}}

    def launches(self, *names: str) -> bool:
        """Reports whether the container starts one of these programs."""
        return self.starts is not None and self.starts.program in names


class Pods(Struct, frozen=True, kw_only=True):
    """The pods of one role."""

    role: str
    replicas: int
    path: FieldPath  # of the role
    spec_path: FieldPath  # of the pod's spec
    spec: Mapping[str, Any]
    containers: tuple[Container, ...]

    @property
    def requested(self) -> tuple[Requested, ...]:
        """The devices that one of these pods requests."""
        return tuple(each for container in self.containers for each in container.requested)


class Manifest(Struct, frozen=True, kw_only=True):
    """One object of a file."""

    document: Document
    root: FieldPath  # the object's own path: a List holds several objects
    kind: str
    name: str
    data: Mapping[str, Any]
    pods: tuple[Pods, ...]

    def at(self, *path: str | int) -> FieldPath:
        """Returns the path of a field in the document."""
        return (*self.root, *path)

    def get(self, *path: str | int) -> Any:  # noqa: ANN401  # whatever the file holds there
        """Returns the value of a field; None where it is absent."""
        return dig(self.data, *path)

    @property
    def containers(self) -> Iterator[Container]:
        """All containers of all pods."""
        return (container for pods in self.pods for container in pods.containers)

    @property
    def nodes(self) -> int:
        """The number of pods that compute."""
        return sum(pods.replicas for pods in self.pods if pods.role != "Launcher")

    @property
    def slots(self) -> int:
        """The number of an MPIJob's ranks on each worker."""
        return number(self.get("spec", "slotsPerWorker")) or 1


def manifests(document: Document) -> Iterator[Manifest]:
    """Yields the objects of a document whose kind has pods."""
    items = document.data.get("items")
    if document.data.get("kind") == "List" and isinstance(items, list):
        for index, item in enumerate(items):
            yield from _manifest(document, item, ("items", index))
    else:
        yield from _manifest(document, document.data, ())


def dig(data: object, *path: str | int) -> Any:  # noqa: ANN401  # whatever the file holds there
    """Returns the value at ``path``; None where it is absent."""
    for part in path:
        if isinstance(data, Mapping):
            data = data.get(part)
        elif isinstance(data, list) and isinstance(part, int) and part < len(data):
            data = data[part]
        else:
            return None
    return data


def mapping(value: object) -> Mapping[str, Any]:
    """Returns ``value`` if it is a mapping, else an empty one."""
    return value if isinstance(value, Mapping) else {}


def listing(value: object) -> list[Any]:
    """Returns ``value`` if it is a list, else an empty one."""
    return value if isinstance(value, list) else []


def number(value: object) -> int | None:
    """Returns ``value`` if it is a whole number, as a number or as text; else None."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,9}", value):
        return int(value)
    return value if isinstance(value, int) else None


def positions(listed: Iterable[str]) -> tuple[int, ...]:
    """Returns the numbers of a mask. Python refuses to read one of thousands of digits: it is beyond any count."""
    return tuple(int(part) if len(part) <= _DIGITS else _BEYOND for part in listed if part.isdecimal())


def _manifest(document: Document, data: object, root: FieldPath) -> Iterator[Manifest]:
    kind = dig(data, "kind")
    if kind not in KINDS:
        return
    name = dig(data, "metadata", "name")
    yield Manifest(
        document=document,
        root=root,
        kind=kind,
        name=name if isinstance(name, str) else "",
        data=mapping(data),
        pods=tuple(_pods(data, kind, root)),
    )


def _pods(data: object, kind: str, root: FieldPath) -> Iterator[Pods]:
    if kind in TEMPLATES:
        replicas = dig(data, "spec", "parallelism") if kind == "Job" else 1
        yield _role(kind, replicas, (*root, "spec"), (*root, *TEMPLATES[kind]), dig(data, *TEMPLATES[kind]))
        return
    for role, replica in mapping(dig(data, *REPLICAS[kind])).items():
        path = (*root, *REPLICAS[kind], role)
        spec = dig(replica, "template", "spec")
        yield _role(role, dig(replica, "replicas"), path, (*path, "template", "spec"), spec)


def _role(role: str, replicas: object, path: FieldPath, spec_path: FieldPath, spec: object) -> Pods:
    listed, count = enumerate(listing(dig(spec, "containers"))), number(replicas)
    return Pods(
        role=role,
        replicas=1 if count is None else count,
        path=path,
        spec_path=spec_path,
        spec=mapping(spec),
        containers=tuple(_container(each, (*spec_path, "containers", index)) for index, each in listed),
    )


def _container(data: object, path: FieldPath) -> Container:
    name = dig(data, "name")
    return Container(
        name=name if isinstance(name, str) else "",
        path=path,
        data=mapping(data),
        env=_env(data, path),
        starts=started(_words(data, path)),
        requested=tuple(_requested(data, path)),
    )


def _env(data: object, path: FieldPath) -> dict[str, Variable]:
    entries = {}
    for index, entry in enumerate(listing(dig(data, "env"))):
        name, value = dig(entry, "name"), dig(entry, "value")
        if isinstance(name, str) and (isinstance(value, str) or (value is None and dig(entry, "valueFrom") is None)):
            entries[name] = Variable(value=value or "", path=(*path, "env", index))
    return entries


def _words(data: object, path: FieldPath) -> Iterable[tuple[str, FieldPath]]:
    for field in ("command", "args"):
        for index, word in enumerate(listing(dig(data, field))):
            if isinstance(word, str):
                yield word, (*path, field, index)


def _requested(data: object, path: FieldPath) -> Iterator[Requested]:
    both = {name: (row, amount, place) for row, name, amount, place in resources(data, path)}  # limits come last
    for name, (row, amount, place) in both.items():
        count = number(amount)
        if row and count:
            yield Requested(row=row, resource=name, count=count, path=place)


def resources(data: object, path: FieldPath) -> Iterator[tuple[Row | None, str, object, FieldPath]]:
    """Yields the requests and limits of the container at ``path``: the row of a device, name, amount and path."""
    for field in ("requests", "limits"):
        for name, amount in mapping(dig(data, "resources", field)).items():
            yield row_of(str(name)), str(name), amount, (*path, "resources", field, name)


def row_of(resource: str) -> Row | None:
    """Returns the accelerator row of an extended resource; None where it is not a device."""
    return next((row for row in ROWS.values() if re.fullmatch(row.resource_pattern or "(?!)", resource)), None)

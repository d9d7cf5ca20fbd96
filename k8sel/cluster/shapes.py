"""The parts of Kubernetes' objects that k8sel reads, with their types. Pure.

The client checks each answer against them once: no other code meets a missing name, or a number in place of text.
They are no models: fields that k8sel does not read are not here, and the objects stay plain dicts.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Time = Annotated[datetime, Meta(tz=True)]
Text = Annotated[str, Meta(max_length=32_768)]  # k8sel searches it by patterns
Name = Annotated[str, Meta(pattern=r"^[^/?#%\s]+\Z")]  # it becomes a part of a URL
Item = TypeVar("Item")
_PATH = re.compile(r"/apis?/(?:[^/]+/)?v\w+/(?:namespaces/[^/]+/)?(?P<plural>[^/]+)(?P<name>/[^/]+)?")
LEVELS = 60  # of objects in objects; a pod has about 12


class Owner(Struct, frozen=True):
    kind: str
    name: str
    uid: str
    controller: bool = False


class Managed(Struct, frozen=True):
    manager: str = ""
    operation: str = ""
    fieldsV1: dict[str, dict[str, Any]] = {}


class Metadata(Struct, frozen=True):
    name: Name
    namespace: Name
    uid: str
    creationTimestamp: Time | UnsetType = UNSET
    resourceVersion: str = ""
    deletionTimestamp: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    managedFields: list[Managed] = []
    ownerReferences: list[Owner] = []


class Object(Struct, frozen=True):
    metadata: Metadata


class Condition(Struct, frozen=True):
    type: str
    status: str
    reason: str = ""
    message: str = ""
    lastTransitionTime: str = ""


class Variable(Struct, frozen=True):
    name: str
    value: str = ""


class Container(Struct, frozen=True):
    name: str
    env: list[Variable] = []


class PodSpec(Struct, frozen=True):
    containers: Annotated[list[Container], Meta(min_length=1)]
    nodeName: str = ""


class Template(Struct, frozen=True):
    spec: PodSpec


class Replica(Struct, frozen=True):
    template: Template
    replicas: int = 1


class JobSpec(Struct, frozen=True):
    runPolicy: dict[str, Any] = {}
    pytorchReplicaSpecs: dict[str, Replica] = {}
    mpiReplicaSpecs: dict[str, Replica] = {}


class Reason(Struct, frozen=True):
    """Of a container that waits, or has ended."""

    exitCode: int = 0
    reason: str = ""
    message: str = ""
    finishedAt: str = ""


class State(Struct, frozen=True):
    running: dict[str, Any] = {}
    waiting: Reason = Reason()
    terminated: Reason = Reason()


class ContainerStatus(Struct, frozen=True):
    name: str
    ready: bool = False
    restartCount: int = 0
    state: State = State()
    lastState: State = State()


class Progress(Struct, frozen=True):
    """The status of a job or a pod."""

    phase: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    initContainerStatuses: list[ContainerStatus] = []
    containerStatuses: list[ContainerStatus] = []


class Job(Object, frozen=True):
    spec: JobSpec
    status: Progress = Progress()


class LiveMetadata(Metadata, frozen=True, kw_only=True):
    creationTimestamp: Time


class LiveJob(Job, frozen=True):
    metadata: LiveMetadata


class Pod(Object, frozen=True):
    spec: PodSpec
    status: Progress = Progress()


class Labelled(Struct, frozen=True):
    creationTimestamp: str = ""
    labels: dict[str, str] = {}


class Subject(Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""


class Event(Struct, frozen=True):
    metadata: Labelled
    involvedObject: Subject
    reason: str = ""
    message: str = ""
    lastTimestamp: str = ""
    eventTime: str = ""


class NodeStatus(Struct, frozen=True):
    allocatable: dict[str, str] = {}


class Node(Struct, frozen=True):
    spec: dict[str, Any] = {}
    status: NodeStatus = NodeStatus()


class Namespace(Struct, frozen=True):
    metadata: Labelled


class Validation(Struct, frozen=True):
    expression: Text
    message: str = ""
    messageExpression: str = ""


class PolicyVariable(Struct, frozen=True):
    name: str
    expression: Text


class PolicySpec(Struct, frozen=True):
    validations: list[Validation] = []
    variables: list[PolicyVariable] = []


class Policy(Struct, frozen=True):
    spec: PolicySpec


class Named(Struct, frozen=True):
    name: str


class GroupVersion(Struct, frozen=True):
    groupVersion: Annotated[str, Meta(pattern=r"^[a-z0-9.-]+/v[a-z0-9]+\Z")]


class Discovery(Struct, frozen=True):
    """The answer about an API group, or about a version of it."""

    resources: list[Named] = []
    versions: list[GroupVersion] = []


class ListMetadata(Struct, frozen=True):
    resourceVersion: str
    more: str = msgspec.field(default="", name="continue")


class Listing(Struct, Generic[Item], frozen=True):
    metadata: ListMetadata
    items: list[Item] = []


class Single(Struct, frozen=True):
    """An object that is no item of a list names its kind."""

    kind: str


class SingleJob(Struct, frozen=True):
    kind: Literal["PyTorchJob", "MPIJob"]
    apiVersion: str


class Cause(Struct, frozen=True):
    reason: str = ""
    field: Annotated[str, Meta(max_length=4096)] = ""
    message: Annotated[str, Meta(max_length=4096)] = ""


class Details(Struct, frozen=True):
    kind: str = ""
    name: str = ""
    causes: Annotated[list[Cause], Meta(max_length=500)] = []


class Status(Struct, frozen=True):
    """A refusal."""

    kind: Literal["Status"]
    code: int = 0
    reason: str = ""
    message: Text = ""
    details: Details = Details()


class Change(Struct, frozen=True):
    """A line of a watch."""

    type: str
    object: dict[str, Any]


OBJECTS: dict[str, type[Struct]] = {
    "pytorchjobs": LiveJob,
    "mpijobs": LiveJob,
    "pods": Pod,
    "events": Event,
    "nodes": Node,
    "namespaces": Namespace,
    "validatingadmissionpolicies": Policy,
}


def is_list(path: str) -> bool:
    """Reports if ``path`` names all objects of a kind."""
    match = _PATH.fullmatch(path)
    return match is not None and not match["name"]


def check(found: object, method: str, path: str) -> None:
    """Raises msgspec.ValidationError if ``found`` is no answer to a GET or PATCH of ``path``."""
    match = _PATH.fullmatch(path)
    if match is None:
        msgspec.convert(found, Discovery)
        return
    item = OBJECTS.get(match["plural"], Object)
    if not match["name"]:
        msgspec.convert(found, Listing[item])  # type: ignore[valid-type]
        return
    is_job = item is LiveJob
    msgspec.convert(found, Job if is_job and method == "PATCH" else item)  # a dry run has made nothing
    msgspec.convert(found, SingleJob if is_job else Single)


def check_change(found: object, path: str) -> None:
    """Raises msgspec.ValidationError if ``found`` is no line of a watch of ``path``."""
    change = msgspec.convert(found, Change)
    if change.type == "ERROR":
        msgspec.convert(change.object, Status)
        return
    msgspec.convert(change.object, Listing[Any])  # the version, which is all that a bookmark has
    if change.type != "BOOKMARK":
        msgspec.convert(change.object, OBJECTS.get(_PATH.fullmatch(path)["plural"], Object))  # type: ignore[index]


def present(value: Any, depth: int = 0) -> Any:  # noqa: ANN401 - JSON
    """``value`` without null, which Kubernetes takes for an absent field. Raises RecursionError beyond LEVELS."""
    if depth > LEVELS:
        raise RecursionError
    if isinstance(value, dict):
        return {key: present(each, depth + 1) for key, each in value.items() if each is not None}
    return [present(each, depth + 1) for each in value] if isinstance(value, list) else value

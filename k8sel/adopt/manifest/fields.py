"""Everything of a manifest but its command: devices, resources, volumes, policies. Most follows the table of fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from k8sel.adopt.line.draft import Draft
from k8sel.adopt.line.masks import NOTHING
from k8sel.adopt.manifest.places import Places
from k8sel.adopt.manifest.reader import REPLICAS, Container, Manifest, Pods, dig, listing, mapping, number, resources
from k8sel.errors import FieldPath
from k8sel.facts.accelerators import ROWS, without_devices
from k8sel.facts.fields import FIELDS, Field
from k8sel.facts.names import LABEL_QUEUE
from k8sel.wording import bare

SHM = "/dev/shm"
# Paths in the object whose fields have rows, and their place in the table.
PLACES: dict[tuple[str, ...], str] = {
    (): "object",
    ("spec",): "spec",
    ("spec", "runPolicy"): "runPolicy",
    ("metadata",): "metadata",
}
_KUBECTLS = "kubectl.kubernetes.io/"  # annotations that kubectl writes for itself
_NOT_CARRIED = "it has no field in a job file"


def variables(draft: Draft, container: Container, places: Places) -> None:
    """Takes the container's variables: values, and the sources of those with a valueFrom."""
    for index, entry in enumerate(listing(container.data.get("env"))):
        name, path = dig(entry, "name"), (*container.path, "env", index)
        if not isinstance(name, str):
            continue
        if mapping(dig(entry, "valueFrom")):
            draft.read_elsewhere.append({"name": name, "valueFrom": entry["valueFrom"]})
        else:
            draft.env[name] = places.filled(str(dig(entry, "value") or ""), path, draft.env, name)
    if container.data.get("envFrom"):
        word = places.word("envFrom", (*container.path, "envFrom"))
        draft.warn(
            word,
            "envFrom is not carried over: the manifest does not name its variables",
            "write each variable in env, with its valueFrom",
        )


def take(draft: Draft, manifest: Manifest, pods: Pods, container: Container, places: Places) -> None:
    """Takes everything but the command and its variables."""
    if manifest.kind in REPLICAS:
        draft.put(("spec", "nodes"), manifest.nodes or 1, places.word("", manifest.at("spec")))
        _alike(draft, manifest, pods, places)
    _object(draft, manifest, places)
    _labels(draft, manifest, places)
    _others(draft, manifest, pods, places)
    _flat(draft, pods.spec, pods.spec_path, FIELDS["pod"], places)
    _flat(draft, container.data, container.path, FIELDS["container"], places)
    _devices(draft, container, places)
    _volumes(draft, pods, container, places)
    for other in pods.containers:
        if other is not container:
            word = places.word(other.name, other.path)
            draft.warn(
                word, f"container {other.name} is not carried over: a job's pod has one container", "run it elsewhere"
            )


def _object(draft: Draft, manifest: Manifest, places: Places) -> None:
    """Copies the object's own fields that the job file has. A Pod's spec is its pod's."""
    for path, place in PLACES.items():
        for name, row in FIELDS[place].items():
            value = manifest.get(*path, name)
            if row.adopted == "copied" and value is not None and not (manifest.kind == "Pod" and path[:1] == ("spec",)):
                draft.put(row.path, value, places.word("", manifest.at(*path, name)))


def _alike(draft: Draft, manifest: Manifest, pods: Pods, places: Places) -> None:
    """Warns where another role's template differs: the nodes of a job are alike."""
    for other in manifest.pods:
        if other.role not in (pods.role, "Launcher") and other.spec != pods.spec:
            word = places.word("", other.path)
            message = f"{other.role}'s template differs from {pods.role}'s, and the nodes of a job are alike"
            draft.warn(word, message, f"make the templates alike: the job file follows {pods.role}'s")


def _others(draft: Draft, manifest: Manifest, pods: Pods, places: Places) -> None:
    """Reports the object's fields beside its pods that a job file does not have. Of a Pod, only those at the top."""
    for path, place in PLACES.items():
        for name in mapping(manifest.get(*path)) if manifest.kind != "Pod" or not path else ():
            if _is_reported(FIELDS[place], name):
                word = places.word(str(name), manifest.at(*path, name))
                draft.note(word, f"{'.'.join((*path, str(name)))} is not carried over: {_NOT_CARRIED}")
    template = (*pods.spec_path[:-1], "metadata")
    if manifest.kind != "Pod" and any(mapping(dig(manifest.document.data, *template)).values()):
        message = "the template's own metadata is not carried over"
        draft.note(places.word("", template), message, "write labels in metadata.labels")


def _labels(draft: Draft, manifest: Manifest, places: Places) -> None:
    labels = dict(mapping(manifest.get("metadata", "labels")))
    place = places.word("", manifest.at("metadata", "labels"))
    queue = labels.pop(LABEL_QUEUE, None)
    if queue:
        draft.put(("spec", "scheduling", "queue"), queue, place)
    if labels:
        draft.put(("metadata", "labels"), labels, place)
    annotations = mapping(manifest.get("metadata", "annotations"))
    own = {name: value for name, value in annotations.items() if not str(name).startswith(_KUBECTLS)}
    if own:
        draft.put(("metadata", "annotations"), own, places.word("", manifest.at("metadata", "annotations")))


def _flat(draft: Draft, data: Mapping[str, Any], path: FieldPath, rows: Mapping[str, Field], places: Places) -> None:
    """Copies the fields that the job file has, and reports those that it does not have."""
    for name, value in data.items():
        word = places.word(name, (*path, name))
        if _is_reported(rows, name):
            draft.note(word, f"{name} is not carried over: {_NOT_CARRIED}")
        elif rows[name].adopted == "copied":
            draft.put(rows[name].path, value, word)


def _is_reported(rows: Mapping[str, Field], name: str) -> bool:
    return name not in rows or rows[name].adopted == "reported"


def _devices(draft: Draft, container: Container, places: Places) -> None:
    """Takes resources of the accelerator table as the accelerator, and all others as resources."""
    _resources(draft, container, places)
    if not container.requested:
        _without_request(draft, container, places)
        return
    first, *others = container.requested
    word = places.word(str(first.count), first.path)
    draft.row_hints.setdefault(first.row.name, word)
    draft.put(("spec", "accelerator", "count"), first.count, word)
    if first.resource in first.row.resources_ended:
        message = f"no plugin serves {first.resource} any longer: the job requests {first.row.resource_name}"
        draft.note(word, message)
    elif first.resource != first.row.resource_name:
        draft.put(("spec", "accelerator", "resource"), first.resource, word)
    exposure = draft.env.pop(first.row.exposure_env or "", None)
    if exposure:
        message = f"{first.row.exposure_env} is not carried over: it would override the device plugin's choice"
        draft.warn(exposure, message, "use accelerator.devices, which chooses among the allotted devices")
    for other in others:
        draft.refuse(places.word("", other.path), f"{other.resource}: a job has one type of device", "keep one of them")


def _resources(draft: Draft, container: Container, places: Places) -> None:
    """Takes CPUs, memory and other resources. Refuses a part of a device."""
    for row, name, amount, path in resources(container.data, container.path):
        word = places.word(str(amount), path)
        if not row:
            draft.put(("spec", "resources", name), amount, word)
        elif number(amount) is None:
            message = f"{name}: {bare(str(amount))} is not a number of devices"
            draft.refuse(word, message, "write a whole number")


def _without_request(draft: Draft, container: Container, places: Places) -> None:
    """Takes a container without a request: no devices, or those that a variable of its runtime exposes."""
    for row in ROWS.values():
        name = next((each for each in (row.host_env, row.exposure_env) if each and each in draft.env), "")
        word = draft.env.get(name)
        if word is None or word.text in NOTHING:
            continue
        draft.row_hints.setdefault(row.name, word)
        if word.text == "all":
            message = f"{name}=all: the manifest does not give the number of devices"
            draft.refuse(word, message, "request the devices in resources.limits")
        elif row.host_env and name != row.host_env:
            message = f"{name} and allocation: host number devices differently"
            draft.refuse(word, message, f"set {row.host_env} instead, or request the devices in resources.limits")
        draft.put(("spec", "accelerator", "allocation"), "host", word)
        return
    draft.row_hints.setdefault(without_devices().name, places.word("", container.path))


def _volumes(draft: Draft, pods: Pods, container: Container, places: Places) -> None:
    """Takes a volume at /dev/shm with a size as sharedMemory, and the other volumes as they are."""
    volumes, mounts = listing(pods.spec.get("volumes")), listing(container.data.get("volumeMounts"))
    name = next((dig(mount, "name") for mount in mounts if dig(mount, "mountPath") == SHM), None)
    memory = next((each for each in volumes if name and dig(each, "name") == name), None)
    size = dig(memory, "emptyDir", "sizeLimit")
    if size is not None:
        index = volumes.index(memory)
        draft.put(("spec", "sharedMemory"), size, places.word("", (*pods.spec_path, "volumes", index)))
        volumes = [each for each in volumes if each is not memory]
        mounts = [each for each in mounts if dig(each, "name") != name]
    for field, values, path in (
        ("volumes", volumes, (*pods.spec_path, "volumes")),
        ("volumeMounts", mounts, (*container.path, "volumeMounts")),
    ):
        if values:
            draft.put(("spec", field), values, places.word("", path))

"""Describes values, types, and missing or unknown fields in words. Pure; uses only the schema's keywords."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from k8sel.errors import FieldPath
from k8sel.facts.accelerators import ROWS
from k8sel.wording import nearest, quote, words

TYPES = {
    "string": "a string",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "array": "a list",
    "object": "a mapping (key: value)",
}
# A test checks that each pattern of the models has an entry here.
PATTERNS = {
    r"^[a-z]([-a-z0-9]*[a-z0-9])?$": "use lower-case letters, digits and '-'; a letter first, a letter or digit last",
    r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$": "use lower-case letters, digits and '-'; start and end with a letter or digit",
    r"^[-._a-zA-Z][-._a-zA-Z0-9]*$": "use letters, digits, '_', '-' and '.'; do not start with a digit",
    "^/.+": "use an absolute path",
    r"^(auto|[0-9]{1,5}(-[0-9]{1,5})?(,[0-9]{1,5}(-[0-9]{1,5})?)*)$": "use auto, or cores such as 0,24 or 0-3",
    "^[a-z][a-z0-9_;-]*$": "use lower-case letters, digits, '_', '-' and ';'; start with a letter",
    "^[A-Za-z0-9][-_.:A-Za-z0-9]{0,14}$": "use at most 15 letters, digits, '-', '_', '.', ':'; no sign first",
}
# Name of a field in Kubernetes, a training operator or a launcher -> the job file's field with that meaning.
SYNONYMS = {
    "replicas": "spec.nodes",
    "numNodes": "spec.nodes",
    "nnodes": "spec.nodes",
    "workers": "spec.nodes for pods; for oneCCL, use spec.ccl.workers",
    "nprocPerNode": "spec.processesPerNode",
    "nproc_per_node": "spec.processesPerNode",
    "numProcPerNode": "spec.processesPerNode",
    "slotsPerWorker": "spec.processesPerNode",
    "args": "spec.command, which takes arguments too",
    "gpus": "spec.accelerator.count",
    "gpu": "spec.accelerator.count",
    "gpuIds": "spec.accelerator.devices",
    "shm": "spec.sharedMemory",
    "shmSize": "spec.sharedMemory",
    "shm_size": "spec.sharedMemory",
    "environment": "spec.env, a list of {name: NAME, value: VALUE}",
    "timeout": "spec.policy.activeDeadlineSeconds",
    "num_nodes": "spec.nodes",
    "name": "metadata.name",
    "accelerators": "spec.accelerator, for example {type: cuda, count: 8}",
    "retries": "spec.policy.backoffLimit",
    "working_dir": "spec.workingDir",
    "limits": "spec.resources: each of its quantities is both a request and a limit",
    "requests": "spec.resources: each of its quantities is both a request and a limit",
    "runPolicy": "spec.policy",
    "priorityClass": "spec.scheduling.priorityClassName",
    "restartPolicy": "spec.policy.maxRestarts or spec.policy.backoffLimit",
    "mpiImplementation": "spec.mpi.implementation",
    "ddpBackend": "spec.backend",
    "ddp_backend": "spec.backend",
    "bindTo": "spec.mpi.binding",
    "queueName": "spec.scheduling.queue",
    "envFrom": "spec.env, and valueFrom in each variable",
}


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
_MOST = 64  # numbers of a range that a hint writes out


def describe(value: object, text: str | None) -> str:
    """Returns a value as the user wrote it, and what YAML reads it as where the two differ."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        word = str(value).lower()
        return word if text in (None, word) else f"{text}, which YAML reads as {word}"
    if isinstance(value, int | float):
        return f"the number {text or value}"
    if isinstance(value, str):
        return f"the string {quote(value)}"
    return "a list" if isinstance(value, list) else "a mapping"


def type_of(value: object) -> str:
    """Returns the type of ``value`` in words, and nothing of the value itself."""
    names = {str: "a string", bool: "true or false", int: "a number", float: "a number", list: "a list"}
    return names.get(type(value), "a mapping")


def type_hint(expected: str, value: object, text: str | None) -> str:
    """Returns a hint that turns ``value`` into the type ``expected``."""
    if value is None:
        quoted = f'write "{text}" in quotes, or ' if text and expected == "string" else ""
        return f"{quoted}leave it out, or give it a value"
    better = _as_string(value) if isinstance(value, str) else _as_scalar(value, text)
    return better.get(expected, "")


def field_hint(path: FieldPath, value: object) -> str:
    """Returns a hint for a text that other tools take in place of a field's own form; empty for any other."""
    if not isinstance(value, str):
        return ""
    if path == ("spec", "accelerator"):
        return _accelerator(*value.partition(":"))
    duration = re.fullmatch(r"([0-9]{1,6})([smhd])", value)
    if duration and str(path[-1]).endswith("Seconds"):
        return f"write {int(duration[1]) * _SECONDS[duration[2]]}, in seconds"
    return ""


def _accelerator(name: str, _: str, count: str) -> str:
    """SkyPilot's ``A100:8``, or a type alone."""
    of_type = name.lower() in ROWS
    product = "" if of_type else ", product: [its name in the nodes' label]"
    return f"write {{type: {name.lower() if of_type else 'cuda'}, count: {count if count.isdecimal() else 1}{product}}}"


def _as_string(value: str) -> dict[str, str]:
    """Returns, for each other type, how to write the string ``value`` as that type."""
    hints = {"array": f"write [{', '.join(_numbers(value) or words(value))}]"}
    if value.removeprefix("-").isdecimal():
        hints |= {"integer": f"write {value} without quotes"}
    if value.lower() in ("true", "false"):
        hints |= {"boolean": f"write {value.lower()} without quotes"}
    return hints


def _numbers(value: str) -> list[str]:
    """Returns the numbers of ranges such as ``0-3,6``; nothing for any other text."""
    if not re.fullmatch(r"[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*", value.replace(" ", "")):
        return []
    ends = [part.partition("-") for part in value.replace(" ", "").split(",")]
    found = [number for first, _, last in ends for number in range(int(first), int(last or first) + 1)]
    return list(map(str, found)) if len(found) <= _MOST else []


def _as_scalar(value: object, text: str | None) -> dict[str, str]:
    """Returns, for each other type, how to write the number or boolean ``value``, written as ``text``."""
    if text is None:
        return {}
    hints = {"string": f'write "{text}" in quotes', "array": f"write [{text}]"}
    if isinstance(value, float) and value.is_integer():
        hints |= {"integer": f"write {int(value)}"}
    return hints


def enum_hint(value: object, allowed: Sequence[str]) -> str:
    """Returns a hint that names the value of ``allowed`` nearest to ``value``."""
    near = nearest(value, allowed) if isinstance(value, str) else None
    return f"did you mean {near}?" if near else ""


def unknown_hint(key: str, allowed: Sequence[str], elsewhere: Mapping[str, Sequence[str]]) -> str:
    """Returns a hint for the unknown field ``key``: its place, the field it resembles, or the allowed fields."""
    if key in SYNONYMS:
        return f"use {SYNONYMS[key]}"
    places = elsewhere.get(key, ())
    if len(places) == 1:
        return f"move it to {places[0]}"
    near = nearest(key, allowed)
    if near:
        return f"did you mean {near}?"
    return f"use one of {', '.join(allowed)}" if len(allowed) <= 8 else "run `k8sel schema` to list the fields"


def required_hint(field: Mapping[str, Any]) -> str:
    """Returns a hint that lists the values of a missing field, or describes the field."""
    if "enum" in field:
        return f"{'use one of' if len(field['enum']) > 1 else 'write'} {', '.join(field['enum'])}"
    text = str(field.get("description", ""))
    return f"add it: {text[:1].lower()}{text[1:].rstrip('.')}"

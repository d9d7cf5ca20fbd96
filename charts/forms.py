"""The rules about a field's form, as JSON Schema: Helm checks it before it runs a template.

The patterns and tables are the rules' own. Each function adds to the definitions of values.schema.json, in place.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from k8sel.entrypoint import masks
from k8sel.facts import accelerators, launchers
from k8sel.jobfile import quantity
from k8sel.jobfile.rules import common, shapes
from k8sel.jobfile.rules import env as env_rules
from k8sel.jobfile.rules import launch as launch_rules
from k8sel.jobfile.rules import names as name_rules
from k8sel.jobfile.rules import pod as pod_rules

Schema = dict[str, Any]

NOTHING = {"enum": [None]}
SPACE = "".join(map(chr, filter(lambda code: chr(code).isspace(), range(0x3001))))
JSON_TYPES = {dict: "object", list: "array", str: "string", int: "integer", bool: "boolean"}


def _whole(pattern: str) -> str:
    return f"^(?:{pattern})$"


def _starts(names: Iterable[str]) -> str:
    """Returns a pattern for names that begin with one of ``names``; one that ends in = is a whole name."""
    return "^(" + "|".join(re.escape(name.removesuffix("=")) + "$" * name.endswith("=") for name in names) + ")"


LABEL_VALUE = {"type": "string", "pattern": _whole(common.LABEL_VALUE)}
# Go's patterns have no look-ahead, so a length has a keyword of its own.
SUBDOMAIN = {"pattern": _whole(common.SUBDOMAIN.removeprefix(common.SUBDOMAIN_LENGTH)), "maxLength": 253}
_KEY = rf"({common.SUBDOMAIN.removeprefix(common.SUBDOMAIN_LENGTH)}/)?{common.LABEL_NAME}"
OWNED_KEY = {_starts(name_rules.OWNED): False}
NO_ZERO_BYTE = {"pattern": "^[^\0]*$"}


def tighten(parts: dict[str, Schema]) -> None:
    """Adds the forms to the definitions ``parts`` of the values' schema."""
    fields = {name: part["properties"] for name, part in parts.items()}
    _metadata(fields["Metadata"])
    _accelerator(parts["Accelerator"])
    _env(parts["EnvVar"])
    _names(fields)
    _mounts(fields["Spec"])
    _amounts(fields)
    _contexts(fields["Spec"])
    _start(parts["Spec"])
    fields["Cpu"]["processPer"]["enum"] = [None]  # only `k8sel run` and `k8sel docker` count a machine's parts
    ends = launch_rules.ENDS_AN_OPTION.replace(r"\s", SPACE).removeprefix("[")
    fields["Mpi"]["sshAuthMountPath"]["allOf"] = [{"pattern": f"^[^{ends}*$"}]


def _metadata(fields: Schema) -> None:
    fields["labels"] |= _keyed(_KEY, LABEL_VALUE, OWNED_KEY)
    fields["annotations"] |= _keyed(_KEY, {"type": "string"}, OWNED_KEY)


def _keyed(pattern: str, value: Schema, others: Mapping[str, Any]) -> Schema:
    """Returns the schema of a mapping whose keys match ``pattern``; ``others`` adds forms for some values."""
    return {
        "patternProperties": {_whole(pattern): value, **others},
        "additionalProperties": False,
        "propertyNames": {"pattern": "^([^/]{1,253}/)?[^/]*$"},
    }


def _names(fields: Mapping[str, Schema]) -> None:
    """Restricts names of other objects, and values that become labels."""
    spec, scheduling = fields["Spec"], fields["Scheduling"]
    named = [spec["serviceAccountName"], spec["runtimeClassName"]]
    for field in (*named, scheduling["priorityClassName"], scheduling["schedulerName"]):
        field.update(SUBDOMAIN)
    scheduling["queue"]["pattern"] = LABEL_VALUE["pattern"]
    spec["nodeSelector"] |= _keyed(_KEY, LABEL_VALUE, {})
    spec["imagePullSecrets"]["items"] |= {
        "properties": {"name": {"type": "string", **SUBDOMAIN}},
        "required": ["name"],
        "additionalProperties": False,
    }


def _accelerator(part: Schema) -> None:
    """Restricts the type to a cluster's devices, and the other fields to the type's row of the table."""
    fields, rows = part["properties"], accelerators.ROWS.values()
    fields["type"]["enum"] = [row.name for row in rows if row.in_container]
    fields["devices"]["uniqueItems"] = True
    fields["product"]["items"]["pattern"] = LABEL_VALUE["pattern"]
    part["allOf"] = [
        {"if": {"properties": {"type": {"const": row.name}}, "required": ["type"]}, "then": {"properties": of_row}}
        for row, of_row in ((row, _of_row(row)) for row in rows if row.in_container)
        if of_row
    ]


def _of_row(row: accelerators.Row) -> Schema:
    """Returns the schema of the fields that depend on the type's row."""
    said: Schema = {"order": {"enum": [None, "pci", *(order for order in row.order_env if order != "pci")]}}
    ended = {"not": {"enum": row.resources_ended}} if row.resources_ended else {}
    said["resource"] = {"pattern": _whole(row.resource_pattern), **ended} if row.resource_pattern else NOTHING
    if not row.is_device:
        said |= {"count": {"enum": [None, 0]}, "devices": {"maxItems": 0}, "memory": NOTHING}
    if row.product_label is None:
        said["product"] = {"maxItems": 0}
    if row.is_device and row.exposure_env is None:
        said["allocation"] = {"enum": [None, "devicePlugin"]}
    return said


def _env(part: Schema) -> None:
    """Refuses variables that another program writes, and variables without exactly one source."""
    name, value, source = (part["properties"][key] for key in ("name", "value", "valueFrom"))
    harmless = accelerators.harmless_env()
    owned = [*env_rules.OWNED, *(f"{name}=" for name in accelerators.owned_env() if name not in harmless)]
    name["not"] = {"pattern": _starts(owned)}
    value |= {**NO_ZERO_BYTE, "not": {"pattern": _reference(env_rules.LATE)}}
    source |= {
        "minProperties": 1,
        "maxProperties": 1,
        "properties": {each: {} for each in env_rules.SOURCES},
        "additionalProperties": False,
    }
    part["allOf"] = [
        {
            "if": {"properties": {"name": {"const": variable}}},
            "then": {"properties": {"value": {"pattern": _harmless(terms)}}, "required": ["value"]},
        }
        for variable, terms in harmless.items()
    ]
    part |= {
        "if": {"required": ["value"]},
        "then": {"properties": {"valueFrom": False}},
        "else": {"if": {"not": {"required": ["valueFrom"]}}, "then": {"required": ["value"]}},
    }


def _harmless(terms: Iterable[str]) -> str:
    """Returns a pattern for a value with one of ``terms``, and neither a number nor an exception (masks.harmless)."""
    other = f"[^;{re.escape(masks.CHOOSING)}]*"
    return f"(?i)^({other};)*({'|'.join(map(re.escape, terms))})(;{other})*$"


def _reference(names: Iterable[str]) -> str:
    """Returns a pattern for a text with $(NAME) of one of ``names`` in it; $$ is a dollar sign."""
    named = "|".join(name.removesuffix("=") if name.endswith("=") else f"{name}[-._a-zA-Z0-9]*" for name in names)
    return rf"^([^$]|\$\$|\$[^$])*\$\(({named})\)"


def _mounts(spec: Schema) -> None:
    named = {"type": "string", "pattern": _whole(pod_rules.DNS_LABEL), "not": {"pattern": "^k8sel"}}
    place = {"type": "string", "pattern": "^/[^:]*$", "not": {"pattern": "^/+$|^/k8sel(/|$)"}}
    spec["volumes"]["items"] = {
        "type": "object",
        "properties": {"name": named},
        "required": ["name"],
        "additionalProperties": {"type": "object"},  # its source
        "if": {"required": ["name"]},
        "then": {"minProperties": 2, "maxProperties": 2},
        "else": {"minProperties": 1, "maxProperties": 1},
    }
    spec["volumeMounts"]["items"] = {
        "type": "object",
        "properties": {"name": {"type": "string"}, "mountPath": place},
        "required": ["name", "mountPath"],
    }


def _amounts(fields: Mapping[str, Schema]) -> None:
    """Restricts quantities to those above zero, and resources to those that are not devices."""
    form = {
        "maxLength": 64,
        "pattern": _whole(quantity.QUANTITY.pattern),
        "allOf": [{"pattern": "^[+]?[0-9.]*[1-9]"}],
        "exclusiveMinimum": 0,
    }
    resources, spec = fields["Spec"]["resources"], fields["Spec"]
    quantity_form = resources["additionalProperties"]
    for amount in (quantity_form, spec["sharedMemory"], fields["Accelerator"]["memory"]):
        amount.update(form)
    native = "|".join((*pod_rules.NATIVE, "hugepages-.*"))
    devices = [row.resource_pattern for row in accelerators.ROWS.values() if row.resource_pattern]
    of_a_plugin = _KEY.replace("/)?", "/)")
    resources |= _keyed(f"{native}|{of_a_plugin}", quantity_form, {_whole("|".join(devices)): False})


def _contexts(spec: Schema) -> None:
    """Restricts the types of values in those Kubernetes fields that k8sel itself reads."""
    for field, forms in shapes.FORMS.items():
        for form, wanted in forms.items():
            _below(spec[field], form)["type"] = JSON_TYPES[wanted]


def _below(part: Schema, form: tuple[str, ...]) -> Schema:
    """Returns the schema below ``part`` at the path ``form``; creates missing parts."""
    for key in form:
        place, name = (part, "items") if key == shapes.EACH else (part.setdefault("properties", {}), key)
        part = place.setdefault(name, {})
    return part


def _start(spec: Schema) -> None:
    """Requires an image, and restricts the command and the variables' names."""
    fields = spec["properties"]
    spec["required"] = [*spec["required"], "image"]
    fields["image"] = {**fields["image"], "type": "string", "pattern": _whole(launch_rules.IMAGE)}
    fields["command"] |= {
        "items": {"type": "string", **NO_ZERO_BYTE},
        "allOf": [{"items": [{"pattern": f"[^{SPACE}]"}]}],
        "if": {"maxItems": 1},
        "then": {"items": [{"pattern": f"^[{SPACE}]*[^{SPACE}]*[{SPACE}]*$"}]},
    }
    spec |= {"if": _goes_through_a_shell(), "then": _named_for_a_shell()}


def _goes_through_a_shell() -> Schema:
    """Returns a condition: /bin/sh starts the entrypoint, or each rank behind ssh."""
    over_ssh = [name for name, row in launchers.LAUNCHERS.items() if row.uses_mpi]
    mode = {"properties": {"mode": {"enum": ["image", "none"]}}, "required": ["mode"]}
    brought = {"not": {"properties": {"entrypoint": mode}, "required": ["entrypoint"]}}
    return {"anyOf": [{"properties": {"launcher": {"enum": over_ssh}}}, brought]}


def _named_for_a_shell() -> Schema:
    return {"properties": {"env": {"items": {"properties": {"name": {"pattern": _whole(env_rules.NAME)}}}}}}

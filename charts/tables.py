"""The tables that the chart's templates look up: rows with what follows from them, and the constants of the code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import msgspec.inspect

from k8sel.bundle import files as brought
from k8sel.emit import podspec
from k8sel.entrypoint import masks, protocol
from k8sel.facts import accelerators, backends, fields, launchers, names
from k8sel.facts.kinds import JOB_KINDS, JobKind
from k8sel.facts.platforms import KUBERNETES
from k8sel.jobfile import defaults, quantity
from k8sel.jobfile.rules import conflicts
from k8sel.jobfile.rules import env as env_rules
from k8sel.jobfile.rules import launch as launch_rules
from k8sel.jobfile.schema import schema
from k8sel.jobfile.spec import API_VERSION, CCL_WORKERS, KIND, Spec, decode
from k8sel.planning import launch, mpi, pod

Table = dict[str, Any]

# Field of the expectation -> where the chart's plan has it; _env.tpl adds those that are counted.
EXPECTED = {
    **fields.copied("expectation"),
    "count": "devices.count",
    "product": "devices.product",
    "memory": "devices.memory",
}


def tables() -> dict[str, Table]:
    """Returns the name of a file -> its content."""
    return {
        "facts": _facts(),
        "accelerators": {name: _accelerator(row) for name, row in accelerators.ROWS.items()},
        "launchers": {name: _launcher(name, row) for name, row in launchers.LAUNCHERS.items()},
        "mpi": {name: _mpi_row(row) for name, row in launchers.MPIS.items()},
    }


def _accelerator(row: accelerators.Row) -> Table:
    return {
        **_plain(row),
        "orderEnv": {order: _entries(values) for order, values in row.order_env.items()},
        "maskedByPosition": row.mask_value not in masks.BY_NUMBER,
    }


def _launcher(name: str, row: launchers.Launcher) -> Table:
    sshd = mpi.CAPABILITIES if row.uses_mpi else ()
    return {
        **_plain(row),
        "targets": row.targets,
        "envWithoutDevices": _entries(row.env_without_devices),
        "gangSchedulers": {} if row.uses_mpi else {gang: own for gang, own in defaults.GANG_SCHEDULERS.items() if gang},
        "defaults": _defaults(name),
        # whether the user is root -> what depends on it
        "defaultsOfUser": {"true": _keys(row, defaults.ROOT_SSH), "false": _keys(row, defaults.USER_SSH)},
        "capabilities": {"true": [*sshd, *(mpi.ROOT_CAPABILITIES if sshd else ())], "false": sshd},
        # isolation -> whether each rank starts through the entrypoint's mode rank
        "modeRank": {"node": row.uses_mpi, "process": row.uses_mpi or not row.starts_one},
    }


def _defaults(launcher: str) -> Table:
    """Returns, for each part of the job file, the defaults that are equal in every job of the launcher."""
    data = {"command": ["true"], "launcher": launcher, "accelerator": {"type": accelerators.without_devices().name}}
    job = {"apiVersion": API_VERSION, "kind": KIND, "metadata": {"name": "job"}, "spec": data}
    spec = defaults.default(decode(job)).spec
    by_mpi = {"mpi": {"implementation": spec.mpi.implementation, "sshPort": spec.mpi.ssh_port}}
    return {
        "spec": {"nodes": spec.nodes, "target": spec.target},
        "accelerator": {
            "order": spec.accelerator.order,
            "allocation": spec.accelerator.allocation,
            "isolation": spec.accelerator.isolation,
        },
        **(by_mpi if launchers.LAUNCHERS[launcher].uses_mpi else {}),
        "policy": {
            "maxRestarts": spec.policy.max_restarts,
            "backoffLimit": spec.policy.backoff_limit,
            "cleanPodPolicy": spec.policy.clean_pod_policy,
        },
        "entrypoint": {"mode": spec.entrypoint.mode},
    }


def _keys(row: launchers.Launcher, folder: str) -> Table:
    """Returns the default of ``mpi`` for a user whose ssh keys are in ``folder``."""
    return {"sshAuthMountPath": folder} if row.uses_mpi else {}


def _mpi_row(row: launchers.Mpi) -> Table:
    return {
        **_plain(row),
        "words": {binding: mpi.words(row, KUBERNETES, binding) for binding in row.binding},
        "bound": {binding: env_rules.bound_by(row, binding) for binding in row.binding},
    }


def _facts() -> Table:
    """Returns the constants of k8sel's modules."""
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "jobs": {name: _job_kind(kind) for name, kind in JOB_KINDS.items()},
        "labels": {
            "job": names.LABEL_JOB,
            "managedBy": names.LABEL_MANAGED_BY,
            "manager": names.MANAGER,
            "jobFile": names.ANNOTATION_JOB_FILE,
            "queue": names.LABEL_QUEUE,
        },
        "backends": {
            "options": backends.OPTIONS,
            "variables": dict(backends.VARIABLES),
            "workers": CCL_WORKERS,
        },
        "hidden": _entries(accelerators.hide_env()),
        "noDevices": _no_devices(),
        "units": {**{unit: float(f"1e{power}") for unit, power in quantity.DECIMAL.items()}, **_binary(), "": 1},
        "programs": {name: _program(row) for name, row in launchers.PROGRAMS.items()},
        "entrypoint": _entrypoint(),
        "pod": {
            "graceSeconds": pod.GRACE_SECONDS,
            "hostNetwork": pod.HOST_NETWORK,
            "launcherResources": pod.LAUNCHER_RESOURCES,
            "sharedMemory": podspec.SHARED_MEMORY,
            "entrypoint": podspec.ENTRYPOINT,
        },
        **_parts(),
        "copied": {place: fields.copied(place) for place in ("pod", "container")},
        "mpi": _mpi(),
        "refusals": _refusals(),
    }


def _job_kind(kind: JobKind) -> Table:
    return {
        "apiVersion": kind.api_version,
        "operator": kind.operator,
        "resource": f"{kind.plural}.{kind.group}",
        "first": kind.first,
        "firstComputes": kind.first_computes,
        "ofObject": fields.of_object(kind.mutable),
    }


def _no_devices() -> Table:
    """Returns the devices of a node that asks for none: its container sees none of any vendor's."""
    rows = accelerators.ROWS.values()
    return {
        "positions": [],
        "count": 0,
        "resource": "",
        "exposure": _entries(masks.hidden(row.exposure_hide for row in rows)),
        "mask": _entries(masks.hidden(row.mask_hide for row in rows)),
        "product": [],
        "memory": 0,
        "tolerations": [],
    }


def _binary() -> dict[str, int]:
    return {unit: 2**power for unit, power in quantity.BINARY.items()}


def _program(row: launchers.Program) -> Table:
    """Returns a program's row for the nodes of an operator."""
    place = {name: f"$({variable})" for name, (variable, _) in launch.PLACE.items()}
    return {**_plain(row), "options": [place.get(word, word) for word in row.options]}


def _entrypoint() -> Table:
    default = protocol.Expectation("", ())
    optional = {protocol._camel(name): value for name, value in vars(default).items()}
    return {
        "starts": {"configMap": launch.BROUGHT, "image": [launch.BUILT_IN], "none": []},
        "script": brought.SCRIPT,
        "archive": brought.ARCHIVE,
        "variable": protocol.VARIABLE,
        "emptied": protocol.EMPTIED,
        "version": protocol.VERSION,
        "expected": {name: {"path": path, "default": optional[name]} for name, path in EXPECTED.items()},
    }


def _parts() -> Table:
    """Returns the parts of ``spec`` that exist, empty, if the file omits them, and those of them that are models."""
    kinds = {msgspec.inspect.StructType: {}, msgspec.inspect.DictType: {}, msgspec.inspect.VarTupleType: []}
    info = msgspec.inspect.type_info(Spec)
    assert isinstance(info, msgspec.inspect.StructType)
    types = {field.encode_name: type(_bare_type(field.type)) for field in info.fields}
    return {
        "parts": {name: kinds[each] for name, each in types.items() if each in kinds},
        "models": [name for name, each in types.items() if each is msgspec.inspect.StructType],
    }


def _bare_type(kind: msgspec.inspect.Type) -> msgspec.inspect.Type:
    return kind.type if isinstance(kind, msgspec.inspect.Metadata) else kind


def _mpi() -> Table:
    return {
        "constants": _entries(mpi.CONSTANTS),
        "sshd": [*mpi.SSHD_START, *mpi.SSHD_OPTIONS],
    }


def _refusals() -> Table:
    """Returns the values that the rules compare with."""
    return {
        "conflicts": conflicts.FACTS,
        "withoutDevices": accelerators.without_devices().name,
        "computes": conflicts.COMPUTES,
        "targets": conflicts.TARGETS,
        "starters": sorted(launch_rules.STARTERS),
        "modules": sorted(launch_rules.MODULES),
        "inShell": launch_rules.IN_SHELL,
        "name": schema()["$defs"]["Metadata"]["properties"]["name"]["pattern"],
    }


def _plain(row: msgspec.Struct) -> Table:
    """Returns a row as plain data, without what is for people; msgspec does not convert read-only mappings."""
    made: Table = msgspec.to_builtins(row, enc_hook=dict)
    return {name: value for name, value in made.items() if name not in ("note", "source")}


def _entries(values: Mapping[str, str]) -> list[dict[str, str]]:
    """Returns variables as a list: their order is part of an object."""
    return [{"name": name, "value": value} for name, value in values.items()]

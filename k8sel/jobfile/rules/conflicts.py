"""Refuses fields that contradict each other: one rule evaluates every row of the table ``conflicts.json``.

The chart evaluates the same rows in a template. A condition names a value by its path. The path starts in ``spec``, or
in a table's row for the job's launcher, target, MPI, type or backend (``VIEWS``). A condition that is a list accepts
any value of the list. Every other condition is one of ``OPERATORS``.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct

from k8sel.entrypoint.tables import BY_NUMBER
from k8sel.errors import FieldPath, Kind, Problem
from k8sel.facts import accelerators, backends, launchers
from k8sel.facts.backends import BACKENDS
from k8sel.facts.kinds import JOB_KINDS
from k8sel.facts.launchers import LAUNCHERS, MPIS
from k8sel.facts.platforms import Platform
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.defaults import ROOT_SSH, is_root
from k8sel.jobfile.quantity import amount, text
from k8sel.jobfile.rules.common import Rule
from k8sel.wording import bare

TABLE = Path(accelerators.__file__).parent / "conflicts.json"
FACTS = {
    "maskedByNumber": sorted(BY_NUMBER),
    "rootSsh": ROOT_SSH,
    "leastMemory": 2**20,  # bytes of a device, a container or /dev/shm
    "mostCpus": 4096,
    "annotationsLimit": 256 * 1024,
    "pairsLimit": 2**20,  # 4,096 nodes with 16 processes that each see 16 devices
    "overMpi": [name for name, mpi in MPIS.items() if mpi.ccl[backends.VARIABLES["transport"]] == "mpi"],
}


class Conflict(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One row of the table: the problem that a job has when it meets every condition."""

    why: str
    when: dict[str, Any]
    path: str
    kind: Kind
    message: str  # {spec.nodes} becomes the value; of a list, {...} joins with "or" and {...,} with commas
    hint: str
    source: str = ""  # of the part of somebody else that makes it a problem, where there is one


CONFLICTS = msgspec.json.decode(TABLE.read_bytes(), type=tuple[Conflict, ...])


def conflicts(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Yields the problem of each row whose conditions the job meets."""
    view = _View(job, platform)
    for row, tests in zip(CONFLICTS, _TESTS, strict=True):
        if all(_passes(view, *test) for test in tests):
            path, message, hint = (view.filled(words) for words in (row.path, row.message, row.hint))
            yield Problem(kind=row.kind, path=_path(path), message=message, hint=hint)


class _View:
    """The values of one job that conditions compare. Each part is computed at its first use."""

    def __init__(self, job: CompleteJob, platform: Platform) -> None:
        self._job = job
        self._parts: dict[str, Any] = {"on": platform.name, "spec": job.spec, "facts": FACTS}
        self._found: dict[str, Any] = {}

    def look(self, path: str) -> Any:  # noqa: ANN401  # a job file's values are of any type
        """Returns the value at ``path``; None where the job has none."""
        if path not in self._found:
            self._found[path] = self._look(*path.split("."))
        return self._found[path]

    def _look(self, head: str, *keys: str) -> Any:  # noqa: ANN401  # as above
        if head not in self._parts:
            self._parts[head] = VIEWS[head](self._job)
        value = self._parts[head]
        for key in keys:
            value = value.get(key) if isinstance(value, Mapping) else getattr(value, _attribute(key), None)
        return None if value is UNSET else value

    def filled(self, words: str) -> str:
        """Returns ``words`` with the job's values in place of the {paths}."""
        return re.sub(r"\{([a-zA-Z]+(?:\.[a-zA-Z]+)+)(,?)\}", lambda match: self._words(match[1], match[2]), words)

    def _words(self, path: str, comma: str) -> str:
        value = self.look(path)
        return (f"{comma} " if comma else " or ").join(bare(text(each)) for each in _values(value))


@cache
def _attribute(key: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"_{letter[0].lower()}", key)


def _values(value: object) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _tests(row: Conflict) -> list[tuple[str, str, Any]]:
    """Returns the path, the operator and the operand of each test of ``row``."""
    each = ((path, wanted if isinstance(wanted, dict) else {"in": wanted}) for path, wanted in row.when.items())
    return [(path, name, limit) for path, tests in each for name, limit in tests.items()]


def _passes(view: _View, path: str, name: str, limit: Any) -> bool:  # noqa: ANN401  # as the table has it
    return OPERATORS[name](view.look(path), view.look(limit) if isinstance(limit, str) else limit)


def _one_of(value: object, wanted: object) -> bool:
    """Reports whether ``value`` and ``wanted`` share an item of the same type: False is not 0."""
    return any(type(each) is type(one) and each == one for each in _values(value) for one in _values(wanted))


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "in": _one_of,
    "not": lambda value, wanted: not _one_of(value, wanted),
    "above": lambda value, limit: (value or 0) > (limit or 0),
    "below": lambda value, limit: (value or 0) < (limit or 0),
    "given": lambda value, wanted: bool(msgspec.to_builtins(value) if isinstance(value, Struct) else value) is wanted,
}


_TESTS = tuple(map(_tests, CONFLICTS))


def _command(job: CompleteJob) -> dict[str, str | None]:
    """Returns the backend that the command names, and the path of the field that names the job's backend."""
    index, name = backends.named(job.spec.command) or (0, None)
    here = name is not None and name == job.spec.backend
    return {"backend": name, "backendPath": f"spec.command[{index}]" if here else "spec.backend"}


def _computes(job: CompleteJob) -> Mapping[str, Any] | None:
    """Returns what the processes compute on: the job's type, or the CPU where the job uses no device."""
    row, accelerator = accelerators.ROWS.get(job.spec.accelerator.type), job.spec.accelerator
    bare_cpu = row is not None and row.is_device and not accelerator.devices
    return COMPUTES.get(accelerators.without_devices().name if bare_cpu else accelerator.type)


COMPUTES: Mapping[str, dict[str, Any]] = {
    kind: {
        "on": kind,
        "backends": [name for name, row in BACKENDS.items() if row.connects(kind)],
        "byOneccl": [name for name, row in BACKENDS.items() if row.oneccl and row.connects(kind)],
    }
    for kind in accelerators.ROWS
}


TARGETS: Mapping[str, dict[str, list[str]]] = {
    kind: {"launchers": [name for name, row in LAUNCHERS.items() if kind in row.targets]} for kind in JOB_KINDS
}


def _job(job: CompleteJob) -> dict[str, Any]:
    """Returns the numbers and amounts of the job that conditions compare."""
    spec, annotations = job.spec, job.metadata.annotations.items()
    devices, row = len(spec.accelerator.devices), accelerators.ROWS.get(spec.accelerator.type)
    return {
        "root": is_root(spec),
        "mpiGiven": spec.mpi_given,
        "processes": spec.nodes * spec.processes_per_node,
        "pairs": spec.nodes * spec.processes_per_node * max(1, devices),
        "devices": devices,
        "firstDevices": spec.accelerator.devices == tuple(range(devices)),
        "units": [number * devices for number in row.unit_counts] if row else [],
        "someDevices": "1 device" if devices == 1 else f"{devices} devices",
        "deviceMemory": _amount(spec.accelerator.memory),
        "sharedMemory": _amount(spec.shared_memory),
        "memory": _amount(spec.resources.get("memory")),
        "cpus": _amount(spec.resources.get("cpu")),
        "annotationBytes": sum(len(key.encode()) + len(value.encode()) for key, value in annotations),
    }


def _amount(value: float | str | None) -> Decimal | None:
    return None if value is None else amount(value)


VIEWS: dict[str, Callable[[CompleteJob], Any]] = {
    "launcher": lambda job: LAUNCHERS[job.spec.launcher],
    "target": lambda job: TARGETS[job.spec.target],
    "mpi": lambda job: launchers.mpi_of(job.spec.launcher, job.spec.mpi.implementation),
    "type": lambda job: accelerators.ROWS.get(job.spec.accelerator.type),
    "backend": lambda job: BACKENDS.get(job.spec.backend or ""),
    "command": _command,
    "computes": _computes,
    "user": lambda job: {**job.spec.pod_security_context, **job.spec.security_context},
    "job": _job,
}


def _path(place: str) -> FieldPath:
    """Splits a place into its parts: spec.command[1] becomes ``spec``, ``command``, 1."""
    return tuple(int(part) if part.isdecimal() else part for part in re.findall(r"[^.\[\]]+", place))


RULES: tuple[Rule, ...] = (conflicts,)

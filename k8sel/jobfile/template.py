"""The commented job file that `k8sel init` writes. Pure text; valid for every launcher with every accelerator."""

from __future__ import annotations

from collections.abc import Callable

from k8sel.errors import FieldPath, SpecError
from k8sel.facts.accelerators import ROWS, Row
from k8sel.facts.launchers import LAUNCHERS
from k8sel.jobfile.rules.devices import type_meant
from k8sel.jobfile.spec import API_VERSION, KIND
from k8sel.wording import did_you_mean, not_supported

_HEAD = f"""\
# A k8sel job file. Check it with `k8sel plan`, try it here with `k8sel run`, start it with `k8sel apply`.
apiVersion: {API_VERSION}
kind: {KIND}
metadata:
  name: train # lower-case letters, digits and '-'
  # namespace: team-a
spec:
  image: registry.example/train:1 # has the program below, and its Python
  # What runs on ONE device. Quote numbers: an unquoted 1e-3 is no text.
  command: [python, train.py, --lr, "1e-3"]
"""
_TAIL = """\
  resources: # of each node's container; requests and limits both
    cpu: 8
    memory: 64Gi
  sharedMemory: 8Gi # /dev/shm; counts as memory
  # env:
  #   - name: LOG_LEVEL
  #     value: info
  # volumes:
  #   - name: data
  #     persistentVolumeClaim: {claimName: data}
  # volumeMounts:
  #   - name: data
  #     mountPath: /data
  # podSecurityContext: {runAsUser: 1000} # then the pods pass Pod Security's level "restricted"
  # scheduling: {queue: team-queue} # Kueue
  # policy: {activeDeadlineSeconds: 86400, ttlSecondsAfterFinished: 600}
"""


def starter(launcher: str, accelerator: str) -> str:
    """Returns the file for ``launcher`` and ``accelerator``. Raises SpecError for an unknown name."""
    problems = [
        not_supported(path, name, allowed, meant(name, allowed))
        for path, name, allowed, meant in _choices(launcher, accelerator)
        if name not in allowed
    ]
    if problems:
        raise SpecError(problems)
    row = ROWS[accelerator]
    by_unit = bool(row.unit) and LAUNCHERS[launcher].restarts
    return (
        _HEAD
        + _launch(launcher)
        + "".join(_units(row) if by_unit else [])
        + "".join(_accelerator(row, by_unit))
        + _TAIL
    )


def _choices(launcher: str, accelerator: str) -> list[tuple[FieldPath, str, tuple[str, ...], Callable[..., str]]]:
    """Returns each option with its value, the values allowed, and the function that names the one that was meant."""
    return [
        (("--launcher",), launcher, tuple(LAUNCHERS), did_you_mean),
        (("--accelerator",), accelerator, tuple(ROWS), type_meant),
    ]


def _launch(launcher: str) -> str:
    text = f"  launcher: {launcher} # {LAUNCHERS[launcher].title}\n  nodes: 1 # pods that compute\n"
    if LAUNCHERS[launcher].uses_mpi:
        text += "  mpi:\n    implementation: OpenMPI # or Intel, MPICH: what the image has\n"
        text += "    # binding: socket # what each process is bound to; or numa, core, none\n"
    return text


def _units(row: Row) -> list[str]:
    """Returns the number of processes of one device, where each process gets one unit of it."""
    few, *more = map(str, row.unit_counts)
    return [
        f"  processesPerNode: {few} # one for each {row.unit} of the devices; a device has {few}, {' or '.join(more)}\n"
    ]


def _accelerator(row: Row, by_unit: bool) -> list[str]:
    """Returns the lines about devices, from the type's row of the table."""
    where = "" if row.in_container else "; for `k8sel run` alone, since no container can have it"
    lines = [f"  accelerator:\n    type: {row.name} # {row.title}{where}\n"]
    if row.is_device:
        lines += ["    count: 1 # devices that the job requests on each node\n"]
    if row.is_device and not by_unit:
        lines += [f"    # devices: {_devices(row)} # those that the processes use; count has to be 3 or more then\n"]
    if row.exclusive and not by_unit:
        lines += ["    # isolation: process # for several processes: only one of them can open a device\n"]
    if row.resource_name:
        lines += [f"    # resource: {row.resource_name} # or another name that the cluster has for them\n"]
    if row.product_label:
        lines += [f"    # product: [NAME] # values of the nodes' label {row.product_label}\n"]
    if row.is_device:
        lines += ["    # memory: 40Gi # that each device must have, at least\n"]
    if not row.is_device:
        lines += ["  # cpu: {threadsPerProcess: 4} # default: counted where it runs\n"]
    return lines


def _devices(row: Row) -> str:
    if row.mask_value == "range":  # no gap
        return "[1, 2]"
    return "[2, 0]" if row.mask_ordered else "[0, 2]"

"""Checks that a program's libraries have the torch.distributed backend that it uses.

Reads the names of folders and torch's own files; imports nothing. A version that is not known is no problem.
"""

from __future__ import annotations

import os

from k8sel.entrypoint import tables
from k8sel.entrypoint.checks import NOTHING, Case, Finding, libraries
from k8sel.entrypoint.checks.libraries import Libraries
from k8sel.entrypoint.cpus import WORKERS
from k8sel.entrypoint.lean import TYPE_CHECKING
from k8sel.entrypoint.machine import read, whole

if TYPE_CHECKING:
    from typing import Any, Iterable

# transformers' option. Only its programs pass the backend through transformers and accelerate to torch.
_OPTIONS = ("--ddp_backend", "--ddp-backend")
_LIBRARIES = ("lib/libtorch_cpu.so", "lib/libtorch_python.so")  # c10d is in the first, until torch 1.8 in the second
_NEEDS = ("since", "until", "built", "linked", "bindings")
_BUILDS = {"cuda": "CUDA", "hip": "ROCm", "xpu": "XPU"}


def check(case: Case) -> Finding:
    """Compares the program's libraries with the backend that it uses."""
    backend, program = case.expectation.backend, case.program
    if program is None:
        return NOTHING
    notes = unknown(backend, program)
    return Finding(problems(backend, program, case.environ), notes, ["backend"] if notes else ())


def problems(backend: str, program: Libraries, environ: dict[str, str]) -> list[str]:
    """Refuses libraries (in one message) and variables that do not work with ``backend``."""
    row = tables.backends().get(backend)
    if row is None:
        return []
    return [*(_pair(backend, row, program) if _known(program) else []), *_workers(row, environ)]


def _pair(backend: str, row: dict[str, Any], program: Libraries) -> list[str]:
    by_option = any(word.partition("=")[0] in _OPTIONS for word in program.command)
    found = [*_versions(row, program.versions, by_option), *_bindings(row, program), *_build(row, program)]
    if not found:
        return []
    needs, has = (" and ".join(dict.fromkeys(pair[side] for pair in found)) for side in (0, 1))
    other = f"{'--ddp_backend ' if by_option else ''}{row['instead']}, which any torch has"
    way = other if row["instead"] else "an image that has it"
    return [f"backend {backend} needs {needs}; the command's Python has {has}: use {way}"]


def unknown(backend: str, program: Libraries) -> list[str]:
    """Notes why the backend and the libraries cannot be compared."""
    row = tables.backends().get(backend)
    if row is None:
        return [f"backend {backend} cannot be checked: this version of k8sel does not know it"]
    if not any(row[field] for field in _NEEDS):
        return []
    if not _known(program):
        return [f"backend {backend} cannot be checked: no torch is found beside {program.program}"]
    if (row["built"] and _built(row["built"], program) is None) or (row["linked"] and _linked(row, program) is None):
        torch = program.versions["torch"]
        return [f"backend {backend} cannot be checked: the build settings of torch {torch} cannot be read"]
    return []


def _known(program: Libraries) -> bool:
    return program.python() and "torch" in program.versions


def _versions(row: dict[str, Any], found: dict[str, str], by_option: bool) -> list[tuple[str, str]]:
    """Returns (needed version, found version) of the packages that are too old or too new."""
    wrong = []
    for limits, text, fits in ((row["since"], "newer", _is_since), (row["until"], "older", _is_until)):
        for package, limit in limits.items():
            version = found.get(package, "")
            if (by_option or package == "torch") and _release(version) and not fits(version, limit):
                wrong.append((f"{package} {limit} or {text}", f"{package} {version}"))
    return wrong


def _is_since(version: str, first: str) -> bool:
    return _release(version) >= _release(first)


def _is_until(version: str, last: str) -> bool:
    limit = _release(last)
    return _release(version)[: len(limit)] <= limit


def _release(version: str) -> tuple[int, ...]:
    """Returns the numbers of a version: ``2.1.0.post2+cxx11.abi`` is 2, 1, 0."""
    numbers = []
    for part in version.partition("+")[0].split("."):
        digits = part[: len(part) - len(part.lstrip("0123456789"))]
        number = whole(digits)
        if number is None:
            break
        numbers.append(number)
        if digits != part:
            break
    return tuple(numbers)


def _workers(row: dict[str, Any], environ: dict[str, str]) -> list[str]:
    """Refuses a number of workers that oneCCL cannot read and dies of: uxlfoundation/oneCCL src/common/env/env.cpp."""
    given = environ.get(WORKERS, "")
    if not row["oneccl"] or not given or whole(given):
        return []
    return [f"{WORKERS}={given} is not a whole number above 0: set 1 or more"]


def _bindings(row: dict[str, Any], program: Libraries) -> list[tuple[str, str]]:
    """Compares the version of the bindings, which add the backend to torch, with this torch."""
    if not row["bindings"]:
        return []
    name, need = row["bindings"], f"{row['bindings']} of torch's version"
    version, torch = program.versions.get(name, ""), program.versions["torch"]
    if not version:
        there = any(libraries.package(program.folders, module) for module in row["modules"])
        return [] if there else [(need, f"torch {torch}"), (need, f"no {name}")]
    numbers = _release(version)
    meant = row["pairs"].get(".".join(map(str, numbers[:3])))
    wanted = _release(meant) if meant else numbers[:2]
    if not wanted or _release(torch)[: len(wanted)] == wanted:
        return []
    text = ".".join(map(str, wanted))
    return [(need, f"torch {torch}"), (need, f"{name} {version}, which is for torch {text}")]


def _build(row: dict[str, Any], program: Libraries) -> list[tuple[str, str]]:
    """Refuses a torch that was built without the backend."""
    wrong = []
    if row["built"] and _built(row["built"], program) is False:
        wrong.append(" or ".join(_BUILDS[name] for name in row["built"]))
    if row["linked"] and _linked(row, program) is False:
        wrong.append("MPI")
    torch = program.versions["torch"]
    return [(f"a torch that was built with {what}", f"torch {torch}, which was built without") for what in wrong]


def _built(any_of: Iterable[str], program: Libraries) -> bool | None:
    """Reads ``cuda: Optional[str] = '13.2'`` in torch/version.py, pytorch/pytorch tools/generate_torch_version.py."""
    lines = read(libraries.package(program.folders, "torch"), "version.py").splitlines()
    values = {line.partition("=")[0].partition(":")[0].strip(): line.partition("=")[2].strip() for line in lines}
    built = [values[name] != "None" for name in any_of if values.get(name)]
    return any(built) if built else None


def _linked(row: dict[str, Any], program: Libraries) -> bool | None:
    """Reports if torch's library is linked with the backend's; None if that cannot be read."""
    from k8sel.entrypoint.checks import elf

    torch = libraries.package(program.folders, "torch")
    each = [elf.needed(os.path.join(torch, path)) for path in _LIBRARIES]
    found = [name for names in each for name in names or ()]
    return None if None in each else any(name.startswith(row["linked"]) for name in found)

"""Finds the versions of the libraries that a program will import, from the names of their folders. Imports nothing.

Python's own rule: packages are in ``lib/python3.N/site-packages`` beside the program's folder (docs.python.org, site),
on Debian in ``dist-packages``; each has a folder ``name-version.dist-info`` (PyPA, recording installed projects), or
setuptools' older ``name-version-....egg-info`` and ``.egg``.
"""

from __future__ import annotations

import os

from k8sel.entrypoint.launch import INSTALL, behind_env, on_path
from k8sel.entrypoint.lean import TYPE_CHECKING, record
from k8sel.entrypoint.machine import names

if TYPE_CHECKING:
    from typing import Iterable

    from k8sel.entrypoint.protocol import Expectation

_SHOWN = ("torch", "accelerate", "deepspeed", "transformers", "triton", "torch_ccl")
_COLLECTIVES = ("nccl", "rccl", "oneccl", "hccl")  # a word of many names: nvidia_nccl_cu13, oneccl_bind_pt
_ENDS = (".dist-info", ".egg-info", ".egg")


@record(frozen=True)
class Libraries:
    """The libraries that a program imports, found by the folders beside it."""

    program: str
    command: list[str]
    folders: list[str]  # of packages, in the order of Python's own search
    versions: dict[str, str]  # the first that is found of each

    def python(self) -> bool:
        """Reports if the program is Python: a shell script may start another Python than the one beside it."""
        name = os.path.basename(self.program)
        return name.startswith("python") or name in ("torchrun", *_SHOWN)


def of(command: list[str], environ: dict[str, str]) -> Libraries:
    """Finds the libraries of a command; none if its program is not in the image."""
    words = behind_env(command)
    program = on_path(words, environ)
    folders = _folders(program, environ) if program else []
    return Libraries(program, words, folders, _versions(folders))


def of_ranks(expectation: Expectation, command: list[str], environ: dict[str, str]) -> Libraries | None:
    """Finds the libraries of the command that a launcher starts as each rank; None if it is not in this image."""
    words = command[-expectation.rank_command :] if expectation.rank_command else []
    found = of(words, environ) if words else None
    return found if found and found.program else None


def package(folders: Iterable[str], name: str) -> str:
    """Returns the folder of the package that is imported as ``name``; empty if there is none."""
    for folder in folders:
        eggs = [os.path.join(folder, entry) for entry in names(folder) if entry.endswith(".egg")]
        for path in (os.path.join(place, name) for place in (folder, *eggs)):
            if os.path.isdir(path):
                return path
    return ""


def missing(launcher: str, found: Libraries) -> list[str]:
    """Refuses a ``launcher`` that is not installed beside the program's torch."""
    torch = found.versions.get("torch", "")
    if launcher not in _SHOWN or launcher in found.versions or not torch or package(found.folders, launcher):
        return []
    return [f"{launcher} is not installed beside torch {torch}: run {INSTALL[launcher]}"]


def _versions(folders: list[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for entry in (entry for folder in folders for entry in names(folder) if entry.endswith(_ENDS)):
        name, _, rest = entry.rpartition(".")[0].partition("-")
        if name in _SHOWN or set(_COLLECTIVES) & set(name.split("_")):
            found.setdefault(name, rest.partition("-")[0])
    return found


def _folders(program: str, environ: dict[str, str]) -> list[str]:
    """Lists folders of packages: the environment's, then those beside the program, then the user's and the system's."""
    given = [folder for folder in environ.get("PYTHONPATH", "").split(":") if folder]
    beside = os.path.dirname(os.path.dirname(os.path.abspath(program)))
    prefixes = [beside, os.path.join(environ.get("HOME") or "/nowhere", ".local")]
    prefixes += ["/usr/local"] if beside in ("/usr", "/") else []
    return given + [folder for prefix in prefixes for folder in _packages(os.path.join(prefix, "lib"))]


def _packages(lib: str) -> list[str]:
    pythons = [os.path.join(lib, name) for name in names(lib) if name.startswith("python3")]
    return [os.path.join(python, kind) for python in pythons for kind in ("site-packages", "dist-packages")]

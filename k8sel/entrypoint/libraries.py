"""Which versions of the training libraries a program will import, from the names of their folders: nothing is imported.

Python's own rule: packages are in ``lib/python3.N/site-packages`` beside the program's folder (docs.python.org, site),
on Debian in ``dist-packages``; each has a folder ``name-version.dist-info`` (PyPA, recording installed projects).
"""

from __future__ import annotations

import os

from k8sel.entrypoint.launch import INSTALL
from k8sel.entrypoint.machine import names

_SHOWN = ("torch", "accelerate", "deepspeed", "transformers", "triton")
_COLLECTIVES = ("nccl", "rccl", "oneccl", "hccl")  # a word of many names: nvidia_nccl_cu13, oneccl_bind_pt
_END = ".dist-info"


def versions(program: str, environ: dict[str, str]) -> dict[str, str]:
    """Library to version; the first that is found, as Python's own search would have it."""
    found: dict[str, str] = {}
    for folder in _folders(program, environ):
        for entry in names(folder):
            name, _, version = entry.removesuffix(_END).partition("-")
            if entry.endswith(_END) and (name in _SHOWN or set(_COLLECTIVES) & set(name.split("_"))):
                found.setdefault(name, version)
    return found


def missing(launcher: str, found: dict[str, str]) -> list[str]:
    """What a program for ``launcher`` imports, and would not find beside its torch."""
    if launcher not in _SHOWN or launcher in found or "torch" not in found:
        return []
    return [f"{launcher} is not installed beside torch {found['torch']}: {INSTALL[launcher]}"]


def _folders(program: str, environ: dict[str, str]) -> list[str]:
    """Folders of packages: the environment's, then those beside the program, then the user's and the system's."""
    given = [folder for folder in environ.get("PYTHONPATH", "").split(":") if folder]
    beside = os.path.dirname(os.path.dirname(os.path.abspath(program)))
    prefixes = [beside, os.path.join(environ.get("HOME") or "/nowhere", ".local")]
    prefixes += ["/usr/local"] if beside in ("/usr", "/") else []
    return given + [folder for prefix in prefixes for folder in _packages(os.path.join(prefix, "lib"))]


def _packages(lib: str) -> list[str]:
    pythons = [os.path.join(lib, name) for name in names(lib) if name.startswith("python3")]
    return [os.path.join(python, kind) for python in pythons for kind in ("site-packages", "dist-packages")]

"""Builds the entrypoint as one file: a zipapp for any Python >= 3.9.

Pure: the same sources give the same bytes. A release has one archive for all, built with its wheel (setup.py). In a
source tree the bytes depend on the installed zlib.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import k8sel
from k8sel.bundle.stripped import stripped
from k8sel.entrypoint import tables

_TIME = (1980, 1, 1, 0, 0, 0)  # the earliest time in a zip
# The package without the library, whose modules the archive does not hold.
_PACKAGE = '''\
"""k8sel: one job file becomes a checked training job. Imports nothing: the entrypoint runs through here."""

__version__ = "{version}"
'''
_READ = {  # table -> the columns that the entrypoint reads
    "accelerators.json": tables.FIELDS,
    "families.json": ("devices",),
    "launchers.json": ("usesMpi", "startsOne", "restarts"),
    "mpi.json": ("rank", "says", "setvars"),
    "backends.json": ("since", "until", "built", "linked", "bindings", "modules", "pairs", "instead", "oneccl"),
}
_SHEBANG = b"#!/usr/bin/env python3\n"


def build() -> bytes:
    """The zipapp: k8sel's version, the entrypoint, and the parts of the tables that it reads."""
    package = Path(__file__).parents[1]
    content = {"__main__.py": b"import start\n", "start.py": _START.encode()}
    content["k8sel/__init__.py"] = _PACKAGE.format(version=k8sel.__version__).encode()
    content.update(_sources(package.joinpath("entrypoint"), "k8sel/entrypoint/"))
    for name, fields in _READ.items():
        table = json.loads(package.joinpath("facts", name).read_bytes())
        read = {key: {field: row[field] for field in fields if field in row} for key, row in table.items()}
        content[f"k8sel/facts/{name}"] = json.dumps(read, separators=(",", ":"), sort_keys=True).encode()
    return _zip(content)


def _sources(folder: Path, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for item in folder.iterdir():
        if item.is_dir() and item.name != "__pycache__":
            found.update(_sources(item, f"{prefix}{item.name}/"))
        elif item.name.endswith(".py"):
            found[prefix + item.name] = stripped(item.read_text(encoding="utf-8")).encode()
    return found


def _zip(content: dict[str, bytes]) -> bytes:
    buffer = io.BytesIO(_SHEBANG)
    with zipfile.ZipFile(buffer, "a") as archive:
        for name in sorted(content):
            entry = zipfile.ZipInfo(name, _TIME)
            entry.create_system = 3  # Unix, whatever builds it
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content[name], zipfile.ZIP_DEFLATED, compresslevel=9)
    return buffer.getvalue()


# It must parse on any Python, also Python 2, because it reports an old Python. Python's own importer compiles
# each module twice, once only for its file's name: half of the start time. Lib/zipimport.py, get_filename.
_START = """\
import sys

if sys.version_info < (3, 9):
    message = "k8sel: the image's Python is %d.%d, and the entrypoint needs 3.9 or newer: " % sys.version_info[:2]
    message += "use an image with a newer python3, or entrypoint.mode: none\\n"
    sys.stderr.write(message)
    try:
        log = open("/dev/termination-log", "r+")
        log.write(message)
        log.close()
    except (IOError, OSError):
        pass
    sys.exit(78)

try:
    import _signal as signal
except ImportError:
    import signal
signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C while the rest is imported is no KeyboardInterrupt

import zipimport


class Importer(zipimport.zipimporter):
    def get_filename(self, name):
        end = "/__init__.py" if self.is_package(name) else ".py"
        return self.archive + "/" + self.prefix + name.rpartition(".")[2] + end


sys.path_hooks.insert(0, Importer)
sys.path_importer_cache.pop(sys.path[0], None)

from k8sel.entrypoint.__main__ import main

main()
"""

"""The entrypoint as one file: a zipapp that any Python >= 3.9 runs.

Pure: the same bytes from the same sources, on every machine and Python.
"""

from __future__ import annotations

import json
import struct
import zlib
from pathlib import Path

from k8sel.deflate import deflated
from k8sel.entrypoint import tables
from k8sel.stripped import stripped

_TIME = (0, 1 << 5 | 1)  # 1980-01-01, the earliest that a zip can say
_STORED, _DEFLATED = 0, 8
_UNIX = 3  # whatever builds it
_SHEBANG = b"#!/usr/bin/env python3\n"


def build() -> bytes:
    """The zipapp: k8sel's version, the entrypoint, and what it reads of the tables."""
    package = Path(__file__).parent
    content = {"__main__.py": b"import start\n", "start.py": _START.encode()}
    content["k8sel/__init__.py"] = package.joinpath("__init__.py").read_bytes()
    content.update(_sources(package.joinpath("entrypoint"), "k8sel/entrypoint/"))
    for name, strip in (("accelerators.json", _accelerators), ("mpi.json", _mpi)):
        table = json.loads(package.joinpath("data", name).read_bytes())
        content[f"k8sel/data/{name}"] = json.dumps(strip(table), separators=(",", ":"), sort_keys=True).encode()
    return _zip(content)


def _sources(folder: Path, prefix: str) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    for item in folder.iterdir():
        if item.is_dir() and item.name != "__pycache__":
            found.update(_sources(item, f"{prefix}{item.name}/"))
        elif item.name.endswith(".py"):
            found[prefix + item.name] = stripped(item.read_text(encoding="utf-8")).encode()
    return found


def _accelerators(table: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    return {name: {field: row[field] for field in tables.FIELDS} for name, row in table.items()}


def _mpi(table: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
    return {name: {field: row[field] for field in ("rank", "hostfile")} for name, row in table.items()}


def _zip(content: dict[str, bytes]) -> bytes:
    """The shebang and a zip of ``content``. By hand, as zipfile compresses with whichever zlib there is."""
    files, index = _SHEBANG, b""
    for name in sorted(content):
        data, path = content[name], name.encode()
        packed = deflated(data)
        method = _STORED if packed is None else _DEFLATED
        sizes = zlib.crc32(data), len(data if packed is None else packed), len(data)
        common = struct.pack("<HHHHHIIIH", 20, 0, method, *_TIME, *sizes, len(path))
        index += b"PK\1\2" + struct.pack("<BB", 20, _UNIX) + common
        index += struct.pack("<HHHHII", 0, 0, 0, 0, 0o100644 << 16, len(files)) + path
        files += b"PK\3\4" + common + struct.pack("<H", 0) + path + (data if packed is None else packed)
    end = struct.pack("<HHHHIIH", 0, 0, len(content), len(content), len(index), len(files), 0)
    return files + index + b"PK\5\6" + end


# Has to parse on any Python, Python 2 included: it is what says that Python is too old.
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

from k8sel.entrypoint.__main__ import main

main()
"""

"""Records what discovery reads on this machine, so that somebody else can lay the machine out again and test with it.

Discovery reads files and folders, opens device nodes, asks a vendor's library, and reads variables. Python raises an
audit event for each file and folder; the entrypoint raises one for each of the others (docs.python.org, sys.audit).
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from k8sel.entrypoint.discovery import cuda, opened
from k8sel.entrypoint.machine import SETTING, Machine
from k8sel.errors import LocalError

MACHINE, FOUND = "machine.json", "found.json"
_UUID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b", re.IGNORECASE)
_SERIAL = re.compile(r"^\W*\w*(?:serial|unique_id)\w*\W+(?:0x)?([0-9a-f]{6,})\W*$", re.IGNORECASE | re.MULTILINE)
_FOLDERS = ("accel", "dri", "nvidia-caps", "nvgpu", "vfio")  # of /dev
_TERMINALS = ("tty", "vcs")
_LEAST = 3  # characters of a host name that is replaced: a shorter one would be found in other words


class Touched:
    """Hears what discovery reads while ``on`` is true. Python cannot remove an audit hook: later it does nothing."""

    def __init__(self) -> None:
        self.on = True
        self.paths: set[str] = set()
        self.refused: dict[str, tuple[int, str]] = {}
        self.settings: set[str] = set()
        self.nvml: dict[str, Any] | None = None
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.on and event in _EVENTS:
            self._take(event, arguments[0])

    def _take(self, event: str, value: Any) -> None:  # noqa: ANN401  (each event has its own type of value)
        if event == opened.EVENT:
            self.refused |= value
        elif event == SETTING:
            self.settings |= set(value)
        elif event == cuda.EVENT:
            self.nvml = value
        elif isinstance(value, str):
            self.paths.add(value)


_EVENTS = ("open", "os.listdir", opened.EVENT, SETTING, cuda.EVENT)


def layout(touched: Touched, machine: Machine, environ: Mapping[str, str]) -> dict[str, Any]:
    """Returns what was read: names in folders, texts, refused device nodes, NVML's answer, and variables.

    A path begins with ``dev``, ``proc`` or ``sys``.
    """
    inside = ((_inside(path, machine), Path(path)) for path in touched.paths)
    read = {short: path for short, path in sorted(inside) if short}
    return {
        "uname": machine.system,
        "folders": {short: _listed(short, path) for short, path in read.items() if path.is_dir()},
        "texts": {short: text for short, path in read.items() if (text := _text(short, path)) is not None},
        "refused": {_inside(path, machine): why for path, why in sorted(touched.refused.items())},
        "nvml": _answer(touched.nvml),
        "settings": {name: environ[name] for name in sorted(touched.settings) if name in environ},
    }


def write(folder: Path, layout: Mapping[str, Any], found: Mapping[str, Any]) -> list[Path]:
    """Writes both as JSON, without serial numbers, UUIDs and the name of this host. Raises LocalError."""
    both = hidden(json.dumps({MACHINE: layout, FOUND: found}), os.uname().nodename)
    files = {folder / name: json.dumps(value, indent=1) + "\n" for name, value in both.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            if file.exists():
                raise LocalError(f"{file} exists already, and nothing was written: name another folder")
        for file, text in files.items():
            file.write_text(text, encoding="utf-8")
    except OSError as error:
        raise LocalError(f"the recording cannot be written: {error.filename}: {error.strerror}") from None
    return list(files)


def hidden(text: str, host: str) -> dict[str, Any]:
    """Reads JSON, and replaces serial numbers, UUIDs and the name of the host: equal ones by equal ones."""
    instead = {**_uuids(text), **_serials(_lines(json.loads(text))), **_hosts(host)}
    longest_first = sorted(map(re.escape, instead), key=len, reverse=True)
    pattern = rf"(?<![0-9A-Za-z])(?:{'|'.join(longest_first)})(?![0-9A-Za-z])"
    made: dict[str, Any] = json.loads(re.sub(pattern, lambda found: instead[found[0]], text) if instead else text)
    return made


def _uuids(text: str) -> dict[str, str]:
    found = dict.fromkeys(_UUID.findall(text))
    return {uuid: f"00000000-0000-0000-0000-{number:012d}" for number, uuid in enumerate(found, 1)}


def _serials(lines: Iterable[str]) -> dict[str, str]:
    """KFD writes a unique id in decimal, and the device's UUID has the same number in 16 hexadecimal digits."""
    found = dict.fromkeys(serial for line in lines for serial in _SERIAL.findall(line))
    decimal = {serial: str(number).rjust(len(serial), "0") for number, serial in enumerate(found, 1)}
    hexadecimal = {f"{int(each):016x}": f"{int(new):016x}" for each, new in decimal.items() if each.isdecimal()}
    return {**decimal, **hexadecimal}


def _hosts(name: str) -> dict[str, str]:
    return {each: "host" for each in (name, name.partition(".")[0]) if len(each) >= _LEAST and each != "localhost"}


def _lines(value: object) -> Iterator[str]:
    """Returns each text in JSON. A text of one line stands behind its key: a file may be called ``unique_id``."""
    if isinstance(value, dict):
        for key, each in value.items():
            yield from [f"{Path(key).name} {each}", each] if isinstance(each, str) else _lines(each)
    elif isinstance(value, list):
        for each in value:
            yield from _lines(each)
    elif isinstance(value, str):
        yield value


def _inside(path: str, machine: Machine) -> str:
    """Returns the path from ``dev``, ``proc`` or ``sys`` on; empty for a file of Python's or of k8sel's own."""
    for name, top in (("dev", machine.dev), ("proc", machine.proc), ("sys", machine.sys)):
        if path == top or path.startswith(f"{top}/"):
            return "" if path.startswith(f"{top}/self/") else name + path[len(top) :]
    return ""


def _listed(short: str, folder: Path) -> list[str]:
    """Returns the names in a folder; of ``/dev`` itself without disks and links, whose names are a user's."""
    return sorted(path.name for path in folder.iterdir() if short != "dev" or _is_kernels(path))


def _is_kernels(path: Path) -> bool:
    mode = path.lstat().st_mode
    node = stat.S_ISCHR(mode) or stat.S_ISREG(mode) or stat.S_ISSOCK(mode)
    return path.name in _FOLDERS or (node and not path.name.startswith(_TERMINALS))


def _text(short: str, path: Path) -> str | None:
    try:
        return None if short.startswith("dev") else path.read_text(encoding="utf-8", errors="replace")
    except OSError:  # a folder, or a file that may not be read
        return None


def _answer(nvml: dict[str, Any] | None) -> dict[str, Any] | None:
    """Returns NVML's answer without the path of its file, which may have a user's name."""
    return {name: value for name, value in nvml.items() if name != "library"} if nvml else None

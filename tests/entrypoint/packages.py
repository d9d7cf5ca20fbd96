"""Python environments as folders: what installers leave of packages, and torch's own files."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path

from entrypoint.machines import script

BUILT = {"cuda": "'12.8'", "hip": "'6.4.2'", "xpu": "'20250101'"}


def environment(root: Path, *packages: str, python: str = "exec env") -> Path:
    """A virtual environment with the folders of ``packages`` (``torch-2.8.0``); its Python runs that shell text."""
    (root / "bin").mkdir(parents=True)
    script(root / "bin/python", python)
    site = root / "lib/python3.11/site-packages"
    for package in packages:
        ends = package.endswith((".egg", ".egg-info"))
        (site / (package if ends else f"{package}.dist-info")).mkdir(parents=True)
    return site


def torch(site: Path, *built: str, linked: tuple[str, ...] = ("libc.so.6",)) -> None:
    """Torch's own files: built with CUDA, ROCm or XPU, and linked with these libraries."""
    said = {name: value if name in built else "None" for name, value in BUILT.items()}
    version(site, "\n".join(["debug = False", *(f"{name}: Optional[str] = {value}" for name, value in said.items())]))
    (site / "torch/lib").mkdir()
    (site / "torch/lib/libtorch_cpu.so").write_bytes(library(*linked))
    (site / "torch/lib/libtorch_python.so").write_bytes(library("libtorch_cpu.so"))


def version(site: Path, text: str) -> None:
    (site / "torch").mkdir(parents=True)
    (site / "torch/version.py").write_text(f"from typing import Optional\n\n__version__ = '0'\n{text}\n")


def library(*needed: str) -> bytes:
    """The least of an ELF file that says which libraries it needs: header, two segments, dynamic section, strings."""
    strings = b"\0".join([b"", *(name.encode() for name in needed), b""])
    address, start = 0x10000, 64 + 2 * 56
    offsets = [strings.index(b"\0" + name.encode() + b"\0") + 1 for name in needed]
    entries = [*((1, offset) for offset in offsets), (5, address + start + 16 * (len(needed) + 2)), (0, 0)]
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    size = start + len(dynamic) + len(strings)
    head = b"\x7fELF\x02\x01\x01" + bytes(9) + struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 0, 0, 64, 56, 2, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, address, address, size, size, 4096)
    section = struct.pack("<IIQQQQQQ", 2, 6, start, address + start, address + start, len(dynamic), len(dynamic), 8)
    return head + load + section + dynamic + strings


def lay_out(root: Path, files: Mapping[str, str]) -> None:
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)

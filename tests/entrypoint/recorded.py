"""Machines that `k8sel devices --record` wrote down, laid out again as folders."""

from __future__ import annotations

import errno
import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from entrypoint.machines import Box

RECORDINGS = Path(__file__).parent / "recordings"


def all_of() -> list[Path]:
    """The folders of recordings that users sent, or that tests here made."""
    return sorted(file.parent for file in RECORDINGS.glob("*/machine.json"))


def read(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """A recording's layout, and what k8sel found on that machine."""
    layout, found = (json.loads((folder / name).read_text(encoding="utf-8")) for name in ("machine.json", "found.json"))
    return layout, found


def lay_out(layout: dict[str, Any], box: Box, library: Path) -> dict[str, str]:
    """Lays the machine out in ``box``; returns the variables that its drivers read. ``library``: recorded.c, built."""
    box.write("uname", layout["uname"])
    for path in sorted(_folders(layout)):
        (box.root / path).mkdir(parents=True, exist_ok=True)
    for folder, names in layout["folders"].items():
        for name in names:
            if not (box.root / folder / name).exists():
                box.write(f"{folder}/{name}", "")
    for path, text in layout["texts"].items():
        box.write(path, text)
    for path, (code, _) in layout["refused"].items():
        (box.root / path).unlink(missing_ok=True)  # the device cgroup denies what another container has: EPERM
        if code != errno.EPERM:
            refuse(box.root / path)
    return {**layout["settings"], **_answers(layout["nvml"], box, library)}


def _folders(layout: dict[str, Any]) -> Iterator[str]:
    yield from layout["folders"]
    yield from (str(Path(path).parent) for path in layout["texts"])


def refuse(path: Path) -> None:
    """A socket cannot be opened, not even by root."""
    path.unlink(missing_ok=True)
    os.mknod(path, stat.S_IFSOCK | 0o600)


def _answers(nvml: dict[str, Any] | None, box: Box, library: Path) -> dict[str, str]:
    if nvml is None:
        return {}
    box.library(library)
    major, _, minor = nvml["runtime"].partition(".")
    rows = [[nvml["driver"], int(major or 0) * 1000 + int(minor or 0) * 10], *nvml["devices"]]
    box.write("nvml", "".join("\t".join(map(str, row)) + "\n" for row in rows))
    return {"FAKE_NVML_TABLE": str(box.root / "nvml")}

"""The files that a job mounts into its containers: the entrypoint's zipapp, and a script that finds Python for it."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
SCRIPT = "entrypoint"  # file names in the folder /k8sel of a container
ARCHIVE = "entrypoint.pyz"


def script() -> str:
    """The script /k8sel/entrypoint. It runs under /bin/sh, which every image with a python3 has."""
    return (HERE / "entrypoint.sh").read_text(encoding="utf-8")


def archive() -> bytes:
    """The zipapp /k8sel/entrypoint.pyz: built with k8sel (setup.py), or from the sources in a source tree."""
    built = HERE / ARCHIVE
    if built.exists():
        return built.read_bytes()
    from k8sel.bundle import zipapp

    return zipapp.build()


def folder() -> Path:
    """Writes both files into a folder named by their content, unless it exists. Returns the folder.

    The folder is below the home folder: a confined Docker (snap, Docker Desktop) sees no other. Raises OSError if
    another user can change it, or has changed it.
    """
    import tempfile
    from hashlib import sha256

    content = {SCRIPT: script().encode(), ARCHIVE: archive()}
    digest = sha256(b"\0".join(content.values())).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "k8sel"
    made = cache / digest[:16]
    cache.mkdir(mode=0o755, parents=True, exist_ok=True)  # also where the umask lets the group write
    _refuse_shared(cache)
    if made.is_dir():
        _compare(made, content)
        return made
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        part = Path(scratch, "part")
        _lay(part, content)
        try:
            part.rename(made)  # atomic: another process may do the same now
        except OSError:
            if not made.is_dir():
                raise
    _compare(made, content)
    return made


def _refuse_shared(*paths: Path) -> None:
    """Raises OSError if another user owns one of ``paths`` or may write it."""
    for path in paths:
        found = path.stat()
        if found.st_uid != os.geteuid():
            raise OSError(f"{path} belongs to another user")
        if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise OSError(f"other users can write {path}: run chmod -R go-w {path}")


def _compare(folder: Path, content: Mapping[str, bytes]) -> None:
    """Raises OSError if the files are not ``content``: the container would run them as its entrypoint."""
    _refuse_shared(folder, *(folder / name for name in content))
    for name, data in content.items():
        if (folder / name).read_bytes() != data:
            raise OSError(f"{folder / name} was changed since k8sel wrote it: delete {folder}")


def _lay(folder: Path, content: Mapping[str, bytes]) -> None:
    """Writes the files with read permission for all, whatever the umask: the container may have another user."""
    folder.mkdir()
    folder.chmod(0o755)
    for name, data in content.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o644)

"""What a job brings into its containers: the entrypoint's zipapp, and the script that finds a Python for it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

HERE = Path(__file__).parent
SCRIPT = "entrypoint"  # file names in the folder /k8sel of a container
ARCHIVE = "entrypoint.pyz"


def script() -> str:
    """The script /k8sel/entrypoint: /bin/sh is in every image that has a python3, wherever that may be."""
    return (HERE / "entrypoint.sh").read_text(encoding="utf-8")


def archive() -> bytes:
    """The zipapp /k8sel/entrypoint.pyz: made when k8sel was built (setup.py); in a source tree, from the sources."""
    built = HERE / ARCHIVE
    if built.exists():
        return built.read_bytes()
    from k8sel.bundle import zipapp

    return zipapp.build()


def folder() -> Path:
    """Both files in a folder of the user's own, named by their content and made on first use.

    Below the home folder, since a Docker that is confined (snap, Docker Desktop) sees no other.
    """
    import tempfile
    from hashlib import sha256

    content = {SCRIPT: script().encode(), ARCHIVE: archive()}
    digest = sha256(b"\0".join(content.values())).hexdigest()
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "k8sel"
    made = cache / digest[:16]
    if made.is_dir():
        return made
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cache) as scratch:
        part = Path(scratch, "part")
        _lay(part, content)
        try:
            part.rename(made)  # whole or not at all, whoever else does the same now
        except OSError:
            if not made.is_dir():
                raise
    return made


def _lay(folder: Path, content: Mapping[str, bytes]) -> None:
    """Readable by anyone, whatever the umask: the container's user is another one."""
    folder.mkdir()
    folder.chmod(0o755)
    for name, data in content.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o644)

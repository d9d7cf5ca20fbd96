"""What a job brings into its containers: the entrypoint's zipapp, and the script that finds a Python for it."""

from __future__ import annotations

from pathlib import Path

DATA = Path(__file__).parent / "data"
SCRIPT = "entrypoint"  # file names in the folder /k8sel of a container
ARCHIVE = "entrypoint.pyz"


def script() -> str:
    """The script /k8sel/entrypoint: /bin/sh is in every image that has a python3, wherever that may be."""
    return (DATA / "entrypoint.sh").read_text(encoding="utf-8")


def archive() -> bytes:
    """The zipapp /k8sel/entrypoint.pyz: made when k8sel was built (setup.py); in a source tree, from the sources."""
    built = DATA / ARCHIVE
    if built.exists():
        return built.read_bytes()
    from k8sel import zipapp

    return zipapp.build()

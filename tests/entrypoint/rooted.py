"""The entrypoint and k8sel on a machine that is a folder: no variable of production says where devices are.

``K8SEL_ROOT`` is read by the starts below alone; the entrypoint of a container refuses it, and k8sel does not read it.
"""

from __future__ import annotations

import os
import sys
import zipfile
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path

from k8sel.bundle import files, zipapp

# Instead of ``-m k8sel``, behind any Python that has k8sel.
K8SEL = (
    "-c",
    """
import os
from k8sel.bundle import files
from k8sel.machine import hardware
hardware.ROOT = os.environ.get("K8SEL_ROOT", "")
if "K8SEL_ARCHIVE" in os.environ:
    files.archive = files.Path(os.environ["K8SEL_ARCHIVE"]).read_bytes
from k8sel.__main__ import main
main()
""",
)
_START = 'import os\n\nmain(root=os.environ.get("K8SEL_ROOT", ""))\n'


def archive() -> bytes:
    """The zipapp, with a start that looks below ``K8SEL_ROOT``."""
    made = BytesIO()
    with zipfile.ZipFile(BytesIO(zipapp.build())) as built, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as rooted:
        for name in built.namelist():
            text = built.read(name)
            rooted.writestr(name, _with_root(text.decode()) if name == "start.py" else text)
    return made.getvalue()


def environ(root: Path, env: Mapping[str, str]) -> dict[str, str]:
    """``env`` for `k8sel run` on the machine below ``root``, with a ``k8sel-entrypoint`` of that start on PATH."""
    folder = root / "k8sel-bin"
    folder.mkdir(parents=True, exist_ok=True)
    _program(folder / "k8sel-entrypoint")
    return {**env, "K8SEL_ROOT": str(root), "PATH": f"{folder}:{env.get('PATH', os.defpath)}"}


def containers(root: Path) -> dict[str, str]:
    """Variables of `k8sel docker` on the machine below ``root``, whose containers get the zipapp with that start."""
    file = root / files.ARCHIVE
    file.write_bytes(archive())
    return {"K8SEL_ROOT": str(root), "K8SEL_ARCHIVE": str(file), "XDG_CACHE_HOME": str(root / "cache")}


def _program(file: Path) -> None:
    file.write_text(f"#!{sys.executable} -I\nfrom k8sel.entrypoint.__main__ import main\n{_START}", encoding="utf-8")
    file.chmod(0o755)


def _with_root(start: str) -> str:
    head, call, end = start.rpartition("main()\n")
    assert (call, end) == ("main()\n", "")
    return head + _START

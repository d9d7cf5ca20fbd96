"""Wraps one layer into an image archive that `ctr images import` and `docker load` read.

pack_image.py LAYER OUT NAME
"""

from __future__ import annotations

import hashlib
import io
import json
import sys
import tarfile
from pathlib import Path

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def config_of(digest: str) -> bytes:
    """The image's configuration: one layer, which sleeps unless told otherwise (it is the sandbox image, too)."""
    return json.dumps(
        {
            "architecture": "amd64",
            "os": "linux",
            "config": {"Cmd": ["sleep", "infinity"], "Env": ["PATH=" + PATH]},
            "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
        }
    ).encode()


def pack(layer: bytes, out: Path, name: str) -> None:
    """Writes the archive: configuration, layer, manifest."""
    digest = hashlib.sha256(layer).hexdigest()
    config = config_of(digest)
    config_name = hashlib.sha256(config).hexdigest() + ".json"
    layer_name = digest + "/layer.tar"
    manifest = json.dumps([{"Config": config_name, "RepoTags": [name], "Layers": [layer_name]}]).encode()
    with tarfile.open(out, "w") as archive:
        for path, content in ((config_name, config), (layer_name, layer), ("manifest.json", manifest)):
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


if __name__ == "__main__":
    pack(Path(sys.argv[1]).read_bytes(), Path(sys.argv[2]), sys.argv[3])

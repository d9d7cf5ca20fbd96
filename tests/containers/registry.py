"""A registry of one image, box/pulled:1, read from a `docker save`d archive; run as a program: ARCHIVE.

It says its address when it listens. Of the tag `stuck` no layer ever comes, of `torn` none is there.
"""

from __future__ import annotations

import hashlib
import json
import sys
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


class Registry(BaseHTTPRequestHandler):
    blobs: dict[str, bytes]  # by digest
    manifests: dict[str, bytes]  # by tag or digest

    def do_HEAD(self) -> None:
        self.do_GET()

    def do_GET(self) -> None:
        kind, _, name = self.path.removeprefix("/v2/box/pulled/").partition("/")
        if self.path == "/v2/":
            self.answer(b"{}", "application/json")
        elif kind == "manifests" and name in self.manifests:
            self.answer(self.manifests[name], MANIFEST)
        elif kind == "blobs" and name in self.blobs:
            if not self.blobs[name]:
                threading.Event().wait()
            self.answer(self.blobs[name], "application/octet-stream")
        else:
            self.answer(b'{"errors": [{"code": "UNKNOWN", "message": "manifest unknown"}]}', "application/json", 404)

    def answer(self, body: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Docker-Content-Digest", digest(body))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """No word of it among the tests'."""


def digest(body: bytes) -> str:
    return f"sha256:{hashlib.sha256(body).hexdigest()}"


def manifest_of(archive: Path, tag: str = "1") -> tuple[bytes, dict[str, bytes]]:
    """The manifest of ``tag``, and its blobs: the archive's, but no image that the daemon may have already."""
    with tarfile.open(archive) as tar:
        parts = {member.name: file.read() for member in tar.getmembers() if (file := tar.extractfile(member))}
    (image,) = json.loads(parts["manifest.json"])
    config = json.dumps({**json.loads(parts[image["Config"]]), "author": tag}).encode()
    layers = [parts[name] for name in image["Layers"]] if tag == "1" else [tag.encode()]
    blobs = {digest(blob): blob for blob in (config, *layers)}
    return _manifest(_blob(CONFIG, config), *(_blob(LAYER, layer) for layer in layers)), blobs


def _blob(kind: str, body: bytes) -> dict[str, object]:
    return {"mediaType": kind, "size": len(body), "digest": digest(body)}


def _manifest(config: object, *layers: object) -> bytes:
    return json.dumps({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": list(layers)}).encode()


def main() -> None:
    images = {tag: manifest_of(Path(sys.argv[1]), tag) for tag in ("1", "stuck", "torn")}
    Registry.blobs = {name: blob for _, blobs in images.values() for name, blob in blobs.items()}
    Registry.blobs[digest(b"stuck")] = b""
    del Registry.blobs[digest(b"torn")]
    tags = {tag: manifest for tag, (manifest, _) in images.items()}
    Registry.manifests = {**tags, **{digest(manifest): manifest for manifest in tags.values()}}
    server = ThreadingHTTPServer(("127.0.0.1", 0), Registry)
    server.daemon_threads = True
    print(f"127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()

"""A token reaches the API server as one clean header, or is refused; no way prints it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

SECRET = "s3cret-token"
PLUGIN = f"""
import json
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                   "status": {{"token": "{SECRET}\\n"}}}}))
"""


class ApiServer(HTTPServer):
    """Knows no object; keeps the Authorization header of each request."""

    def __init__(self) -> None:
        self.seen: list[str | None] = []
        super().__init__(("127.0.0.1", 0), _Answer)


class _Answer(BaseHTTPRequestHandler):
    server: ApiServer

    def do_GET(self) -> None:
        self.server.seen.append(self.headers.get("Authorization"))
        body = json.dumps({"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}).encode()
        self.send_response(404)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@pytest.fixture
def server() -> Iterator[ApiServer]:
    with ApiServer() as made:
        threading.Thread(target=made.serve_forever, daemon=True).start()
        yield made
        made.shutdown()


def status(server: ApiServer, folder: Path, user: dict[str, Any], **environment: str) -> str:
    """Returns the output of `k8sel status` for a kubeconfig with this ``user``."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.server_port}"}}],
        "users": [{"name": "u", "user": user}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "one",
    }
    (folder / "config").write_text(json.dumps(config))
    kept = {name: value for name, value in os.environ.items() if not name.lower().endswith("_proxy")}
    done = subprocess.run(
        [sys.executable, "-m", "k8sel", "status", "demo"],
        capture_output=True,
        text=True,
        check=False,
        env={**kept, "KUBECONFIG": str(folder / "config"), **environment},
    )
    assert done.returncode == 1
    return done.stdout + done.stderr


def with_token(_: Path) -> dict[str, Any]:
    return {"token": f"{SECRET}\n"}


def with_file(folder: Path) -> dict[str, Any]:
    (folder / "token").write_text(f"{SECRET}\r\n")
    return {"tokenFile": str(folder / "token")}


def with_plugin(folder: Path) -> dict[str, Any]:
    (folder / "plugin.py").write_text(PLUGIN)
    call = {"command": sys.executable, "args": [str(folder / "plugin.py")], "interactiveMode": "Never"}
    return {"exec": {"apiVersion": "client.authentication.k8s.io/v1", **call}}


@pytest.mark.parametrize("user", [with_token, with_file, with_plugin])
def test_a_line_end_after_the_token_is_no_part_of_it(
    server: ApiServer, tmp_path: Path, user: Callable[[Path], dict[str, Any]]
) -> None:
    printed = status(server, tmp_path, user(tmp_path))

    assert server.seen
    assert set(server.seen) == {f"Bearer {SECRET}"}
    assert printed.startswith(f"http://127.0.0.1:{server.server_port}: the cluster has no PyTorchJob")
    assert SECRET not in printed


@pytest.mark.parametrize("character", ["\n", "\x00", "\x7f", "\u20ac"])
def test_a_token_that_fits_no_header_is_refused(server: ApiServer, tmp_path: Path, character: str) -> None:
    printed = status(server, tmp_path, {"token": f"s3cret{character}token"}, K8SEL_TRACEBACK="1")

    assert printed == (
        f"http://127.0.0.1:{server.server_port}: the token of context one has a control character or a letter outside "
        "ASCII, and no HTTP header can carry it. Replace the token in the kubeconfig, or log in again\n"
    )
    assert server.seen == []

"""An API server on loopback with objects, watches and logs in memory, which a test can change, break and take away."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
NAMESPACE = "ns"
_BUILT_IN = {"Pod": "/api/v1", "ConfigMap": "/api/v1", "Event": "/api/v1", "Job": "/apis/batch/v1"}
_PLURALS = {"MPIJob": "/apis/kubeflow.org/v2beta1", "PyTorchJob": "/apis/kubeflow.org/v1", **_BUILT_IN}


def path_of(item: Object) -> str:
    """The path of an object."""
    kind, metadata = item["kind"], item["metadata"]
    return f"{_PLURALS[kind]}/namespaces/{NAMESPACE}/{kind.lower()}s/{metadata['name']}"


class Api(ThreadingHTTPServer):
    """The server and its state.

    Faults are patterns of "METHOD path", or of "METHOD path N" for the request after N writes there: ``refused`` maps
    them to a status, ``held`` to the seconds before the answer; ``broken`` ends the connection before the request is
    done, ``lost`` after it. A dry run never breaks.
    """

    daemon_threads = True

    def __init__(self) -> None:
        self.objects: dict[str, Object] = {}
        self.changes: list[tuple[str, Object]] = []  # type of event and object: a version is a position in it
        self.logs: dict[str, str] = {}  # name of a pod -> its log
        self.refused: dict[str, int] = {}
        self.held: dict[str, float] = {}
        self.broken = self.lost = ""
        self.gone = threading.Event()  # the test is over
        self.writes: dict[str, int] = {}
        self.requests: list[str] = []
        self.away = False
        self.changed = threading.Condition()
        super().__init__(("127.0.0.1", 0), _Answer)

    @property
    def url(self) -> str:
        """The address for a kubeconfig."""
        return f"http://127.0.0.1:{self.server_port}"

    def kubeconfig(self, folder: Path) -> Path:
        """Writes a kubeconfig for this server."""
        config = {
            "clusters": [{"name": "c", "cluster": {"server": self.url}}],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u", "namespace": NAMESPACE}}],
            "current-context": "one",
        }
        (folder / "kubeconfig").write_text(json.dumps(config))
        return folder / "kubeconfig"

    def put(self, item: Object) -> Object:
        """Makes an object or replaces it; fills in what a server adds."""
        with self.changed:
            path = path_of(item)
            metadata = {"namespace": NAMESPACE, "creationTimestamp": "2026-01-01T00:00:00Z", **item["metadata"]}
            old = self.objects.get(path, {"metadata": {}})["metadata"]
            metadata |= {"resourceVersion": str(len(self.changes) + 1)}
            metadata.setdefault("uid", old.get("uid") or f"uid-{len(self.changes)}")
            kept = {**item, "metadata": metadata}
            self.changes.append(("MODIFIED" if path in self.objects else "ADDED", kept))
            self.objects[path] = kept
            self.changed.notify_all()
            return kept

    def remove(self, path: str) -> Object | None:
        """Deletes an object."""
        with self.changed:
            gone = self.objects.pop(path, None)
            if gone:
                self.changes.append(("DELETED", gone))
                self.changed.notify_all()
            return gone

    def handle_error(self, *_: object) -> None:
        """A client that has gone is no fault."""


class _Answer(BaseHTTPRequestHandler):
    server: Api
    protocol_version = "HTTP/1.1"  # as the real one: a client reads each event when its chunk comes

    def _begin(self) -> bool:
        """Reports if the request may go on; refuses it, or closes the connection, where the test says so."""
        self.url = urlsplit(self.path)
        self.query = {key: values[0] for key, values in parse_qs(self.url.query).items()}
        called = f"{self.command} {self.url.path}"
        self.server.requests.append(called)
        writes = f"{called} {self.server.writes.get(called, 0)}"
        if self.command != "GET" and "dryRun" not in self.query:
            self.server.writes[called] = self.server.writes.get(called, 0) + 1
            self.server.gone.wait(
                next((held for each, held in self.server.held.items() if re.fullmatch(each, called)), 0)
            )
        broken = self.server.broken and "dryRun" not in self.query
        if self.server.away or (broken and any(re.fullmatch(self.server.broken, each) for each in (called, writes))):
            self.close_connection = True
            return False
        code = next((code for wanted, code in self.server.refused.items() if re.fullmatch(wanted, called)), None)
        if code:
            self._status(code, "refused")
        return code is None

    def do_GET(self) -> None:
        if not self._begin():
            return
        path = self.url.path
        if path.endswith("/log"):
            self._send(200, self.server.logs.get(path.split("/")[-2], "").encode())
        elif "watch" in self.query:
            self._watch(path)
        elif path in self.server.objects:
            self._json(200, self.server.objects[path])
        elif path.rpartition("/")[2] in {f"{kind.lower()}s" for kind in _PLURALS}:
            items = [item for item in list(self.server.objects.values()) if self._wanted(item)]
            self._json(200, {"metadata": {"resourceVersion": str(len(self.server.changes))}, "items": items})
        elif path in _PLURALS.values():
            kinds = [kind for kind, each in _PLURALS.items() if each == path]
            self._json(200, {"resources": [{"name": f"{kind.lower()}s"} for kind in kinds]})
        else:
            self._status(404, "not found")

    def do_PATCH(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self._begin():
            dry = "dryRun" in self.query
            answer = body | {"metadata": {**body["metadata"], "uid": "dry"}} if dry else self.server.put(body)
            if not dry and re.fullmatch(self.server.lost, f"PATCH {self.url.path}"):
                self.close_connection = True
            else:
                self._json(200, answer)

    def do_DELETE(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        if self._begin():
            gone = self.server.remove(self.url.path)
            self._json(200, gone) if gone else self._status(404, "not found")

    def _wanted(self, item: Object) -> bool:
        if path_of(item).rpartition("/")[0] != self.url.path:
            return False
        labels, wanted = item["metadata"].get("labels", {}), self.query.get("labelSelector", "")
        named = self.query.get("fieldSelector", "").removeprefix("metadata.name=")
        fits = all(labels.get(key) == value for key, _, value in (each.partition("=") for each in wanted.split(",")))
        return (fits or not wanted) and named in ("", "type=Warning", item["metadata"]["name"])

    def _watch(self, path: str) -> None:
        self.send_response(200)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        self.close_connection = True
        at = int(self.query["resourceVersion"])
        while not self.server.away:
            with self.server.changed:
                if at >= len(self.server.changes):
                    self.server.changed.wait(0.05)
                new, at = self.server.changes[at:], len(self.server.changes)
            for kind, item in new:
                if self._wanted(item):
                    line = json.dumps({"type": kind, "object": item}).encode() + b"\n"
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(line), line))

    def _status(self, code: int, message: str) -> None:
        self._json(code, {"kind": "Status", "code": code, "message": message})

    def _json(self, code: int, body: Object) -> None:
        self._send(code, json.dumps(body).encode())

    def _send(self, code: int, body: bytes) -> None:
        self.send_response(code)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


@contextmanager
def serving() -> Iterator[Api]:
    """A server, gone at the block's end."""
    with Api() as made:
        threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        try:
            yield made
        finally:
            made.away = True
            made.gone.set()
            made.shutdown()


def owner(item: Object) -> list[Object]:
    """The references by which ``item`` controls another object."""
    known = {key: item[key] for key in ("apiVersion", "kind")}
    return [{**known, "name": item["metadata"]["name"], "uid": item["metadata"]["uid"], "controller": True}]

"""An API server on loopback whose answers a test chooses, and a kubeconfig for it."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

Object = dict[str, Any]
NOT_FOUND: Object = {"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """A request as the server got it."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @property
    def object(self) -> Object:
        """The body, as JSON."""
        found: Object = json.loads(self.body)
        return found


@dataclass(frozen=True, kw_only=True)
class Reply:
    """The answer: ``body`` is JSON, bytes, or pieces that are sent one by one until the client hangs up."""

    code: int = 200
    body: Object | list[Any] | bytes | Iterator[bytes] = b""
    headers: Mapping[str, str] = field(default_factory=dict)


Answer = Callable[[Asked], Reply]


class Server(ThreadingHTTPServer):
    """Asks ``answer`` for each reply and keeps the requests."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.seen: list[Asked] = []
        super().__init__(("127.0.0.1", 0), _Handler)
        self.host = f"http://127.0.0.1:{self.server_port}"

    def handle_error(self, request: object, client_address: object) -> None:
        """A client that hangs up is a part of many tests."""


class _Handler(BaseHTTPRequestHandler):
    server: Server

    def _reply(self) -> None:
        split = urlsplit(self.path)
        length = int(self.headers.get("Content-Length") or 0)
        asked = Asked(
            method=self.command,
            path=split.path,
            query=dict(parse_qsl(split.query)),
            headers=dict(self.headers),
            body=self.rfile.read(length),
        )
        self.server.seen.append(asked)
        reply = self.server.answer(asked)
        body = json.dumps(reply.body).encode() if isinstance(reply.body, dict | list) else reply.body
        self.send_response_only(reply.code)
        for name, value in reply.headers.items():
            self.send_header(name, value)
        if isinstance(body, bytes):
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        for piece in [body] if isinstance(body, bytes) else body:
            self.wfile.write(piece)

    do_GET = do_PATCH = do_DELETE = do_POST = _reply

    def log_message(self, *_: object) -> None: ...


@contextlib.contextmanager
def serving(answer: Answer) -> Iterator[Server]:
    """A server that runs until the block's end."""
    with Server(answer) as made:
        threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        try:
            yield made
        finally:
            made.shutdown()


def kubeconfig(folder: Path, host: str, user: Object | None = None) -> Path:
    """Writes a kubeconfig with the one context ``one``."""
    config = {
        "clusters": [{"name": "c", "cluster": {"server": host}}],
        "users": [{"name": "u", "user": user or {}}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "one",
    }
    path = folder / "config"
    path.write_text(json.dumps(config))
    return path


def job(name: str = "demo", command: list[str] | None = None, **status: Any) -> Object:  # noqa: ANN401 - the API's JSON
    """A PyTorchJob of one pod."""
    container = {"name": "pytorch", "image": "reg/x:1", **({"command": command} if command else {})}
    template = {"spec": {"containers": [container]}}
    return {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": _metadata(name),
        "spec": {"runPolicy": {}, "pytorchReplicaSpecs": {"Master": {"replicas": 1, "template": template}}},
        "status": status,
    }


def pod(name: str = "demo-master-0", owner: str = "demo", **status: Any) -> Object:  # noqa: ANN401
    """The job's pod."""
    labels = {
        "training.kubeflow.org/job-name": owner,
        "training.kubeflow.org/replica-type": "master",
        "training.kubeflow.org/replica-index": "0",
    }
    owners = [{"kind": "PyTorchJob", "name": owner, "uid": f"uid-{owner}", "controller": True}]
    return {
        "metadata": {**_metadata(name), "labels": labels, "ownerReferences": owners},
        "spec": {"containers": [{"name": "pytorch"}]},
        "status": {"phase": "Pending", **status},
    }


def listing(*items: Object) -> Reply:
    """The answer with a list of ``items``."""
    return Reply(body={"kind": "List", "metadata": {"resourceVersion": "7"}, "items": list(items)})


def _metadata(name: str) -> Object:
    return {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "creationTimestamp": "2026-01-01T00:00:00Z",
        "resourceVersion": "5",
    }


def served(asked: Asked, *, of_job: Object, pods: list[Object], events: list[Object], log: bytes = b"") -> Reply:
    """Answers as a cluster with this one job. A watch ends at once."""
    lists = {"pods": pods, "events": events, "configmaps": [], "pytorchjobs": [of_job], "nodes": []}
    plural = asked.path.rpartition("/")[2]
    if plural == "log" or asked.query.get("watch"):
        return Reply(body=log if plural == "log" else b"")
    if asked.method == "PATCH":
        return Reply(body=_stored(asked.object, of_job))
    if plural in lists:
        return listing(*lists[plural])
    single: dict[str, Object] = {
        f"/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/{of_job['metadata']['name']}": of_job,
        "/apis/kubeflow.org/v1": {"kind": "APIResourceList", "resources": [{"name": "pytorchjobs"}]},
    }
    return Reply(body=single[asked.path]) if asked.path in single else Reply(code=404, body=NOT_FOUND)


def _stored(sent: Object, of_job: Object) -> Object:
    """Returns the object that the server stores for an applied one."""
    status = of_job["status"] if sent["kind"] == "PyTorchJob" else {}
    return {**sent, "metadata": {**_metadata(sent["metadata"]["name"]), **sent["metadata"]}, "status": status}

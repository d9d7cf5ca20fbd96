"""A hostile or broken server: each request ends in time, in little memory, and in plain words; no fault of k8sel."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json
import socket
import subprocess
import sys
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cluster_client import fake
from cluster_client.fake import Answer, Asked, Object, Reply
from k8sel.cluster import Cluster, JobRef, apply, connect, delete, exchange, logs, rest, status, wait
from k8sel.errors import ClusterError

MEGABYTE = 1 << 20
JOB = JobRef(name="demo")
PODS = "/api/v1/namespaces/default/pods"


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Answer], Cluster]]:
    """Connects to a server that answers as told."""
    with fake.serving(lambda _: Reply()) as server:
        monkeypatch.setenv("KUBECONFIG", str(fake.kubeconfig(tmp_path, server.host, {"token": "s3cret-token"})))
        monkeypatch.setenv("NO_PROXY", "*")

        def connected(answer: Answer) -> Cluster:
            server.answer = answer
            return connect()

        yield connected


def sick(path: str, reply: Reply) -> Answer:
    """A cluster with one job that answers one path with ``reply``."""

    def answer(asked: Asked) -> Reply:
        return reply if asked.path == path else fake.served(asked, of_job=fake.job(), pods=[fake.pod()], events=[])

    return answer


def refused(call: Callable[[], object], most: int) -> str:
    """The message of the ClusterError that ``call`` raises within ``most`` bytes of memory."""
    tracemalloc.start()
    try:
        with pytest.raises(ClusterError) as caught:
            call()
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()
    return str(caught.value)


def dripping(first: bytes = b"") -> Iterator[bytes]:
    yield first
    for _ in itertools.count():
        time.sleep(0.05)
        yield b" "


def test_a_server_that_drips_is_left(at: Callable[[Answer], Cluster], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange, "EXCHANGE_SECONDS", 0.5)
    cluster = at(sick(PODS, Reply(body=dripping())))
    begun = time.monotonic()

    message = refused(lambda: status(cluster, JOB), 10 * MEGABYTE)

    assert time.monotonic() - begun < 5
    assert message == (
        f"{cluster.host}: the answer is not complete after 0.5 s. "
        "Check the network, VPN and proxy, then try again (context one)"
    )


def test_a_server_that_drips_its_headers_is_left(
    monkeypatch: pytest.MonkeyPatch, at: Callable[[Answer], Cluster]
) -> None:
    monkeypatch.setattr(exchange, "EXCHANGE_SECONDS", 0.5)

    def drip(listener: socket.socket) -> None:
        with contextlib.suppress(OSError), listener.accept()[0] as client:
            client.sendall(b"HTTP/1.1 200 OK\r\nX-Long: ")
            for _ in range(100):
                client.sendall(b"x")
                time.sleep(0.05)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=drip, args=(listener,), daemon=True).start()
        host = f"http://127.0.0.1:{listener.getsockname()[1]}"
        begun = time.monotonic()
        message = refused(lambda: status(replace(at(lambda _: Reply()), host=host), JOB), 10 * MEGABYTE)

    assert time.monotonic() - begun < 5
    assert message.startswith(f"{host}: the answer is not complete after 0.5 s.")


@pytest.mark.parametrize(("code", "path"), [(200, PODS), (403, PODS), (403, f"{PODS}/demo-master-0/log")])
def test_a_body_without_an_end_is_refused(at: Callable[[Answer], Cluster], path: str, code: int) -> None:
    ran = fake.pod(containerStatuses=[{"name": "pytorch", "state": {"running": {"startedAt": "now"}}}])
    endless = Reply(code=code, body=itertools.repeat(b"x" * MEGABYTE, 3000))
    cluster = at(lambda asked: endless if asked.path == path else fake.served(
        asked, of_job=fake.job(), pods=[ran], events=[]
    ))  # fmt: skip

    message = refused(lambda: logs(cluster, JOB, follow=False, on_line=print), 64 * MEGABYTE)

    assert message == (
        f"{cluster.host}: the answer has more than 8 MiB. "
        "Check that this is a Kubernetes API server, not a proxy (context one)"
    )


def test_a_log_line_without_an_end_is_cut(at: Callable[[Answer], Cluster]) -> None:
    ran = fake.pod(containerStatuses=[{"name": "pytorch", "state": {"running": {"startedAt": "now"}}}])
    log = itertools.chain([b"first\n"], itertools.repeat(b"x" * MEGABYTE, 100), [b"\nlast"])
    cluster = at(lambda asked: Reply(body=log) if asked.path.endswith("/log") else fake.served(
        asked, of_job=fake.job(), pods=[ran], events=[]
    ))  # fmt: skip
    found: list[str] = []
    begun = time.monotonic()

    tracemalloc.start()
    logs(cluster, JOB, follow=False, on_line=lambda line: found.append(line.text))
    assert tracemalloc.get_traced_memory()[1] < 16 * MEGABYTE
    tracemalloc.stop()

    assert time.monotonic() - begun < 20
    left_out = 100 * MEGABYTE - exchange.LINE_BYTES
    assert found[0] == "first"
    assert found[1] == "x" * exchange.LINE_BYTES + f" ... [k8sel left out {left_out} bytes of this line]"
    assert found[2:] == ["last"]


def test_a_compressed_answer_is_refused(at: Callable[[Answer], Cluster]) -> None:
    bomb = gzip.compress(b" " * (30 * MEGABYTE))
    cluster = at(sick(PODS, Reply(body=bomb, headers={"Content-Encoding": "gzip"})))

    message = refused(lambda: status(cluster, JOB), 10 * MEGABYTE)

    assert message == (
        f"{cluster.host}: the answer is compressed (gzip), and k8sel accepts no compression. "
        "Check that this is a Kubernetes API server, not a proxy (context one)"
    )


@pytest.mark.parametrize("asked_for", ["100000", "9" * 5000])
def test_a_long_pause_is_not_kept(at: Callable[[Answer], Cluster], asked_for: str) -> None:
    cluster = at(sick(PODS, Reply(code=429, headers={"Retry-After": asked_for})))
    begun = time.monotonic()

    message = refused(lambda: status(cluster, JOB), 10 * MEGABYTE)

    assert time.monotonic() - begun < 5
    shown = asked_for[:20]
    assert message == f"{cluster.host}: the server is overloaded and asks for a pause of {shown} s. Try again later"


@pytest.mark.parametrize("asked_for", ["0", "-1", "soon", ""])
def test_a_short_pause_is_kept(
    at: Callable[[Answer], Cluster], asked_for: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(exchange, "pause", lambda _, seconds: pauses.append(seconds))
    replies = iter([Reply(code=429, headers={"Retry-After": asked_for}), fake.listing()])
    cluster = at(
        lambda asked: next(replies) if asked.path == PODS else fake.served(asked, of_job=fake.job(), pods=[], events=[])
    )

    assert status(cluster, JOB).pods == ()
    assert pauses == [0 if asked_for == "0" else 1]


def test_a_list_comes_in_pages(at: Callable[[Answer], Cluster]) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.path != PODS:
            return fake.served(asked, of_job=fake.job(), pods=[], events=[])
        page = int(asked.query.get("continue", 0))
        more = {"continue": str(page + 1)} if page < 2 else {}
        pod = fake.pod(f"demo-worker-{page}")
        return Reply(body={"metadata": {"resourceVersion": "7", **more}, "items": [pod]})

    found = status(at(answer), JOB)
    assert [pod.name for pod in found.pods] == ["demo-worker-0", "demo-worker-1", "demo-worker-2"]


def test_a_list_without_an_end_is_refused(at: Callable[[Answer], Cluster], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rest, "_LIST_BYTES", 16 * MEGABYTE)
    page = {"metadata": {"resourceVersion": "7", "continue": "x"}, "items": [], "filler": "x" * (7 * MEGABYTE)}
    cluster = at(sick(PODS, Reply(body=page)))

    message = refused(lambda: status(cluster, JOB), 64 * MEGABYTE)

    assert message == f"{cluster.host}: the list {PODS} has more than 16 MiB"


NOT_JSON = [b"<html>", b"{", b'"\xff"', b'{"a": NaN}', b'"\\ud800"', b"\x00" * 100]
WRONG = [
    b"[" * 100_000,
    b'{"a":' * 100_000,
    b"7",
    b"[]",
    b"null",
    b'"text"',
    b"{}",
    b'{"items": 5}',
    b'{"metadata": []}',
]


def test_an_answer_of_tiny_parts_is_refused(at: Callable[[Answer], Cluster]) -> None:
    cluster = at(sick(PODS, Reply(body=b'{"items": [' + b"[]," * (2 * MEGABYTE) + b"[]]}")))

    message = refused(lambda: status(cluster, JOB), 40 * MEGABYTE)

    assert "the answer has more than 300000 lists and objects" in message


@pytest.mark.parametrize("body", [*NOT_JSON, *WRONG], ids=lambda body: repr(body[:12]))
@pytest.mark.parametrize("path", ["/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/demo", PODS])
def test_a_malformed_answer_is_named(
    at: Callable[[Answer], Cluster], path: str, body: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exchange, "pause", lambda *_: None)
    cluster = at(sick(path, Reply(body=body)))

    message = refused(lambda: status(cluster, JOB), 32 * MEGABYTE)

    assert message.startswith(f"{cluster.host}: the answer ")
    assert message.endswith("(context one)")
    assert ("is not JSON" in message) == (body in NOT_JSON)


def damaged(whole: Object) -> Iterator[tuple[str, Object]]:
    """Copies of ``whole`` with one value of each kind in each place."""
    for place in places(whole):
        for wrong in (None, 7, -1, "text", "\x1b/../x?#%", [], [None], {}, {"a": 1}, True, 1e300, "9" * 5000):
            copy = json.loads(json.dumps(whole))
            *way, last = place
            target = copy
            for step in way:
                target = target[step]
            target[last] = wrong
            yield f"{'.'.join(map(str, place))}={wrong!r:.20}", copy


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:  # noqa: ANN401 - JSON
    steps = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, each in steps:
        yield (*way, step)
        yield from places(each, (*way, step))


ENDED = {
    "exitCode": 1,
    "reason": "Error",
    "message": '{"message": {"message": "x"}}',
    "finishedAt": "2026-01-01T00:00:00Z",
}
CONTAINER = {
    "name": "pytorch", "ready": True, "restartCount": 1, "state": {"waiting": {"reason": "r", "message": "m"}},
    "lastState": {"terminated": ENDED},
}  # fmt: skip
CONDITION = {"type": "PodScheduled", "status": "False", "reason": "r", "message": "m", "lastTransitionTime": "t"}
WHOLE: dict[str, Object] = {
    "/apis/kubeflow.org/v1/namespaces/default/pytorchjobs/demo": fake.job(conditions=[{**CONDITION, "type": "Failed"}]),
    PODS: {
        "metadata": {"resourceVersion": "7"},
        "items": [fake.pod(conditions=[CONDITION], containerStatuses=[CONTAINER], reason="r", message="m")],
    },
    "/api/v1/namespaces/default/events": {
        "metadata": {"resourceVersion": "7"},
        "items": [{
            "metadata": {"name": "e", "creationTimestamp": "2026-01-01T00:00:00Z"}, "reason": "r", "message": "m",
            "involvedObject": {"kind": "Job", "name": "demo-launcher", "uid": "uid-demo"},
            "lastTimestamp": "2026-01-01T00:00:00Z", "eventTime": "2026-01-01T00:00:00Z",
        }],
    },
}  # fmt: skip


@pytest.mark.parametrize("path", WHOLE)
def test_no_value_of_an_answer_is_a_fault(at: Callable[[Answer], Cluster], path: str) -> None:
    """Either k8sel reads the object, or it refuses the answer: no other error comes."""
    cluster = at(lambda _: Reply())
    for _, body in damaged(WHOLE[path]):
        cluster = at(sick(path, Reply(body=body)))
        for call in (lambda at=cluster: status(at, JOB), lambda at=cluster: logs(at, JOB, follow=False, on_line=print)):
            with contextlib.suppress(ClusterError):
                call()


@pytest.mark.parametrize(
    "change", [b"{}", b"[]", b'{"type": "MODIFIED", "object": {"metadata": {"resourceVersion": "8"}}}']
)
def test_a_malformed_change_ends_the_watch(at: Callable[[Answer], Cluster], change: bytes) -> None:
    def answer(asked: Asked) -> Reply:
        if asked.query.get("watch") and asked.path == PODS:
            return Reply(body=change + b"\n")
        return fake.served(asked, of_job=fake.job(), pods=[fake.pod()], events=[])

    cluster = at(answer)
    message = refused(lambda: wait(cluster, JOB, timeout=20), 32 * MEGABYTE)

    assert message.startswith(f"{cluster.host}: a line of the watch {PODS} is no Kubernetes object: ")


REFUSAL = {
    "kind": "Status", "code": 422, "reason": "Invalid", "message": "m",
    "details": {
        "kind": "pytorchjobs", "name": "demo",
        "causes": [{"reason": "FieldValueInvalid", "field": "spec.x", "message": "m"}],
    },
}  # fmt: skip


def test_no_value_of_a_refusal_is_a_fault(at: Callable[[Answer], Cluster]) -> None:
    manifest = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "demo"}, "spec": {}}
    for _, body in damaged(REFUSAL):
        cluster = at(lambda _, body=body: Reply(code=422, body=body))  # type: ignore[misc]
        for call in (lambda at=cluster: apply(at, [manifest]), lambda at=cluster: delete(at, JOB)):
            with pytest.raises(ClusterError):
                call()


@pytest.mark.parametrize(
    "text", ["\n", "spec.", "spec[", "a[", "spec[0].", "failed to create typed patch object (", "\n ."]
)
def test_a_long_message_is_read_in_time(at: Callable[[Answer], Cluster], text: str) -> None:
    manifest = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob", "metadata": {"name": "demo"}, "spec": {}}
    message = "failed to create typed patch object (x): errors:\n" + text * (32_000 // len(text))
    cluster = at(lambda _: Reply(code=422, body={**REFUSAL, "message": message, "details": {}}))
    begun = time.process_time()

    refused(lambda: apply(cluster, [manifest]), 64 * MEGABYTE)

    assert time.process_time() - begun < 10


def test_a_proxy_that_sends_the_request_back_shows_no_token(at: Callable[[Answer], Cluster]) -> None:
    def echo(asked: Asked) -> Reply:
        headers = "\n".join(f"{name}: {value}" for name, value in asked.headers.items())
        return Reply(code=502, body=f"bad gateway\n{headers}".encode())

    message = refused(lambda: status(at(echo), JOB), 10 * MEGABYTE)

    assert "bad gateway" in message
    assert "Authorization: [redacted]" in message.replace("authorization", "Authorization")
    assert "s3cret" not in message


GROWS = "it has too many values, or YAML aliases that repeat them without an end"
BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 40))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (BOMB + "users: [{name: u, user: *a39}]\n", GROWS),
        ("a: &a [*a]\n", GROWS),
        ("a: &a {b: *a}\n", GROWS),
        ("x" * (MEGABYTE + 1), "a kubeconfig has at most 1 MiB"),
        ("[" * 100_000, GROWS),
        ("a: {b: c}\n" * 100_000, GROWS),
    ],
    ids=["doubled", "own list", "own mapping", "long", "deep", "many"],
)
def test_a_kubeconfig_that_grows_is_refused(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "config").write_text(text)
    program = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))\n"
        "sys.argv = ['k8sel', 'status', 'demo']\n"
        "from k8sel.__main__ import main; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"KUBECONFIG": str(tmp_path / "config"), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"{tmp_path / 'config'}: {says}")
    assert done.stderr.count("\n") == 1


def test_a_wait_ends_in_time_where_the_server_drips(at: Callable[[Answer], Cluster]) -> None:
    cluster = at(lambda _: Reply(body=dripping()))
    begun = time.monotonic()

    with pytest.raises(ClusterError) as caught:
        wait(cluster, JOB, timeout=0.5)

    assert time.monotonic() - begun < 10
    assert caught.value.exit_status == 124
    assert "no answer before the time was over" in str(caught.value)

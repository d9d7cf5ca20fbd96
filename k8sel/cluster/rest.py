"""Sends requests to the API server, checks and decodes its answers. Takes and returns plain dicts of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from k8sel.cluster import exchange, shapes
from k8sel.cluster.exchange import Broken, Cluster, Object, OutOfTime, Raw, Silent, Unreachable, Unusable
from k8sel.errors import ClusterError

__all__ = [
    "Answer", "Broken", "Cluster", "Object", "OutOfTime", "Refused", "Silent", "Unreachable", "Unusable",
    "change", "find", "lines", "request",
]  # fmt: skip

_READ_AGAIN_AFTER = (0.2, 1.0)  # seconds; a broken connection must not end the following of a job
_OVERLOADED = 429
_OVERLOADED_TRIES = 5
_LONGEST_PAUSE = 30  # seconds; an overloaded server asks for 1, one that ends for about 10
_PAGE = 100  # objects; the largest pods and nodes have about 40 KiB
_PARTS = 300_000  # lists and objects of one answer: 100 pods have about 30,000; an empty list takes 3 bytes, here 120
_LIST_BYTES = 64 << 20  # of all pages: about 5,000 pods


@dataclass(frozen=True, kw_only=True, slots=True)
class Answer:
    """The server's answer and its warnings."""

    object: Object
    warnings: tuple[str, ...] = ()


class Refused(ClusterError):
    """The server refused the request; ``status`` is its metav1.Status."""

    def __init__(self, cluster: Cluster, code: int, status: Object) -> None:
        self.code = code
        self.status = status
        self.reason: str = status.get("reason") or ""
        self.server_message: str = status.get("message") or f"HTTP status {code}"
        self.causes: list[Object] = (status.get("details") or {}).get("causes") or []
        super().__init__(f"{cluster.host}: {self.server_message}")


def request(
    cluster: Cluster, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Object | None = None
) -> Answer:
    """Sends a request; reads a list whole. Raises Refused for a status of 400 or more, Unreachable without answer."""
    query = query or {}
    if method != "GET":
        return _answer(cluster, method, path, _admitted(cluster, method, path, query, body))
    if not shapes.is_list(path):
        return _got(cluster, path, query)[0]
    return Answer(object=_pages(cluster, path, query))


def find(cluster: Cluster, path: str) -> Object | None:
    """The object at ``path``, or None."""
    try:
        return request(cluster, "GET", path).object
    except Refused as refusal:
        if refusal.code == 404:
            return None
        raise


@contextmanager
def lines(
    cluster: Cluster, path: str, *, query: Mapping[str, str], read_seconds: float, longest: int = exchange.LINE_BYTES
) -> Iterator[Iterator[bytes]]:
    """The lines of a streamed answer. A line of more than ``longest`` bytes is cut, and ends with a note."""
    with exchange.stream(cluster, path, query, read_seconds) as answer:
        if isinstance(answer, Raw):
            raise _refused(cluster, answer)
        yield _split(answer, longest)


def change(cluster: Cluster, path: str, line: bytes) -> Object:
    """One line of a watch. Raises Broken where it is not whole, and Unusable where it is no change."""
    found = _decoded(cluster, line)
    with _checked(cluster, f"a line of the watch {path}"):
        shapes.check_change(found, path)
    return found


def _pages(cluster: Cluster, path: str, query: Mapping[str, str]) -> Object:
    """A list with the objects of all pages. Its version is that of the first."""
    listing, size = _got(cluster, path, {**query, "limit": str(_PAGE)})
    items, more = listing.object.get("items") or [], listing.object["metadata"].get("continue")
    while more:
        page, more_bytes = _got(cluster, path, {**query, "limit": str(_PAGE), "continue": more})
        items += page.object.get("items") or []
        more, size = page.object["metadata"].get("continue"), size + more_bytes
        if size > _LIST_BYTES:
            raise Unusable(f"{cluster.host}: the list {path} has more than {_LIST_BYTES >> 20} MiB")
    return {**listing.object, "items": items}


def _got(cluster: Cluster, path: str, query: Mapping[str, str]) -> tuple[Answer, int]:
    """The answer to a GET, and its size. A broken connection is tried again."""
    for seconds in (*_READ_AGAIN_AFTER, None):
        try:
            raw = _admitted(cluster, "GET", path, query, None)
            return _answer(cluster, "GET", path, raw), len(raw.data)
        except Broken:
            if seconds is None:
                raise
            exchange.pause(cluster, seconds)
    raise AssertionError


def _admitted(cluster: Cluster, method: str, path: str, query: Mapping[str, str], body: Object | None) -> Raw:
    """Sends a request, again after the pause that an overloaded server asks for. It has done nothing until then."""
    for _ in range(_OVERLOADED_TRIES - 1):
        raw = exchange.send(cluster, method, path, query, body)
        if raw.status != _OVERLOADED:
            return raw
        exchange.pause(cluster, _asked_pause(cluster, raw))
    return exchange.send(cluster, method, path, query, body)


def _asked_pause(cluster: Cluster, raw: Raw) -> int:
    asked = raw.headers.get("Retry-After", "")
    if not asked.isdecimal():
        return 1
    if len(asked) > 9 or int(asked) > _LONGEST_PAUSE:
        message = f"the server is overloaded and asks for a pause of {asked[:20]} s. Try again later"
        raise Refused(cluster, _OVERLOADED, {"message": message})
    return int(asked)


def _answer(cluster: Cluster, method: str, path: str, raw: Raw) -> Answer:
    if raw.status >= 400:
        raise _refused(cluster, raw)
    if method == "DELETE":  # a Status or the object: nobody reads it
        return Answer(object={}, warnings=_warnings(raw))
    found = _decoded(cluster, raw.data)
    with _checked(cluster, f"the answer to {method} {path}"):
        shapes.check(found, method, path)
    return Answer(object=found, warnings=_warnings(raw))


def _decoded(cluster: Cluster, data: bytes) -> Object:
    """JSON as data without null. The caller checks that it is an object."""
    if data.count(b"[") + data.count(b"{") > _PARTS:
        raise _unusable(cluster, f"the answer has more than {_PARTS} lists and objects")
    try:
        found: Object = shapes.present(msgspec.json.decode(data))
    except RecursionError:
        raise _unusable(cluster, f"the answer has more than {shapes.LEVELS} levels") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise Broken(
            f"{cluster.host}: the answer is not JSON. Check that this is a Kubernetes API server, not a proxy "
            f"(context {cluster.context})"
        ) from None
    return found


@contextmanager
def _checked(cluster: Cluster, what: str) -> Iterator[None]:
    try:
        yield
    except msgspec.ValidationError as error:
        raise _unusable(cluster, f"{what} is no Kubernetes object: {error}") from None


def _unusable(cluster: Cluster, found: str) -> Unusable:
    return Unusable(f"{cluster.host}: {found}. Check that this is a Kubernetes API server (context {cluster.context})")


def _split(pieces: Iterator[bytes], longest: int) -> Iterator[bytes]:
    """Lines without their newline; the last line may lack one. Keeps at most ``longest`` bytes of a line."""
    line, left_out = bytearray(), 0
    for piece in pieces:
        for number, part in enumerate(piece.split(b"\n")):
            if number:  # a newline stands before this part
                yield _whole(line, left_out)
                line, left_out = bytearray(), 0
            left_out += max(0, len(line) + len(part) - longest)
            line += part[: longest - len(line)]
    if line:
        yield _whole(line, left_out)


def _whole(line: bytearray, left_out: int) -> bytes:
    return bytes(line) + (f" ... [k8sel left out {left_out} bytes of this line]".encode() if left_out else b"")


def _refused(cluster: Cluster, raw: Raw) -> Refused:
    return Refused(cluster, raw.status, _status(raw))


def _status(raw: Raw) -> Object:
    """The server's Status. Plain text, of a proxy or an old server, becomes the message of a Status."""
    try:
        found: Object = shapes.present(msgspec.json.decode(raw.data))
        msgspec.convert(found, shapes.Status)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        text = raw.data[:500].decode(errors="replace").strip()
        return {"code": raw.status, "message": text or f"HTTP status {raw.status}"}
    return found


def _warnings(raw: Raw) -> tuple[str, ...]:
    return tuple(map(_warning_text, raw.warnings))


def _warning_text(header: str) -> str:
    """``299 - "text"`` without its frame. https://kubernetes.io/blog/2020/09/03/warnings/"""
    _, quote, text = header.partition('"')
    return text.removesuffix('"').replace('\\"', '"') if quote else header

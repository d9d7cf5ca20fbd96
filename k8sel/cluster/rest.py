"""Sends one request to the API server, and explains its failures. Takes and returns plain dicts of any kind."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    MaxRetryError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from k8sel.errors import ClusterError

Object = dict[str, Any]

_CONNECT_SECONDS = 10
_GET_SECONDS = 15
_WRITE_SECONDS = 45  # longer than an admission webhook may take (30 s)
_APPLY = "application/apply-patch+yaml"  # JSON is YAML; older servers know no apply-patch+json
# The pool repeats a request only after 429 (overload), and waits as long as the server asks.
_RETRIES = urllib3.Retry(
    total=None,
    connect=0,
    read=0,
    redirect=0,
    other=0,
    status=4,
    status_forcelist=[429],
    allowed_methods=None,
    raise_on_status=False,
)
_READ_AGAIN_AFTER = (0.2, 1.0)  # seconds; a broken connection must not end the following of a job
_UNSENDABLE = (
    "{host}: the token of context {context} has a control character or a letter outside ASCII, and no HTTP header can "
    "carry it. Replace the token in the kubeconfig, or log in again"
)

_REASONS: Mapping[type[BaseException], str] = {
    NameResolutionError: "DNS does not know this host name. Check the cluster's address in the kubeconfig, VPN and DNS",
    ProxyError: "the proxy does not answer. Check HTTPS_PROXY, NO_PROXY and proxy-url in the kubeconfig",
    ConnectTimeoutError: f"no answer within {_CONNECT_SECONDS} s. Check VPN and firewall, and the context",
    ReadTimeoutError: "connected, but no answer in time. Try again",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cluster:
    """An API server, its credentials, and the namespace to use. Never print it whole: it contains credentials."""

    host: str
    namespace: str
    context: str
    pool: urllib3.PoolManager = field(repr=False)
    auth_headers: Callable[[], dict[str, str]] = field(repr=False)  # called for each request: it renews tokens


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


class Unreachable(ClusterError):
    """The server gave no answer."""


class Broken(Unreachable):
    """The connection broke during the answer, or the answer is not valid."""


class Silent(Unreachable):
    """The server accepted the connection and sent nothing in time."""


def request(
    cluster: Cluster, method: str, path: str, *, query: Mapping[str, str] | None = None, body: Object | None = None
) -> Answer:
    """Sends a request. Raises Refused for a status of 400 or more, and Unreachable if no answer comes."""
    for pause in _READ_AGAIN_AFTER if method == "GET" else ():
        try:
            return _exchange(cluster, method, path, query or {}, body)
        except Broken:
            time.sleep(pause)
    return _exchange(cluster, method, path, query or {}, body)


def _exchange(cluster: Cluster, method: str, path: str, query: Mapping[str, str], body: Object | None) -> Answer:
    with _explained(cluster):
        seconds = _GET_SECONDS if method == "GET" else _WRITE_SECONDS
        response = _send(cluster, method, path, query, body, read_seconds=seconds, stream=False)
        data = response.data
    if response.status >= 400:
        raise Refused(cluster, response.status, _status(response.status, data))
    warnings = tuple(_warning_text(text) for text in response.headers.getlist("Warning"))
    try:
        return Answer(object=_json(data), warnings=warnings)
    except ValueError:
        raise Broken(
            f"{cluster.host}: the answer is not JSON. Check that this is a Kubernetes API server, not a proxy "
            f"(context {cluster.context})"
        ) from None


@contextmanager
def lines(cluster: Cluster, path: str, *, query: Mapping[str, str], read_seconds: float) -> Iterator[Iterator[bytes]]:
    """The lines of a streamed answer."""
    with _explained(cluster):
        response = _send(cluster, "GET", path, query, None, read_seconds=read_seconds, stream=True)
        try:
            if response.status >= 400:
                raise Refused(cluster, response.status, _status(response.status, response.data))
            yield _split(response)
        finally:
            response.close()


def find(cluster: Cluster, path: str) -> Object | None:
    """The object at ``path``, or None."""
    try:
        return request(cluster, "GET", path).object
    except Refused as refusal:
        if refusal.code == 404:
            return None
        raise


def _send(  # noqa: PLR0913 - one HTTP request has this many parts
    cluster: Cluster, method: str, path: str, query: Mapping[str, str], body: Object | None, *,
    read_seconds: float, stream: bool,
) -> urllib3.BaseHTTPResponse:  # fmt: skip
    headers = {"Accept": "application/json", "User-Agent": "k8sel", **_credentials(cluster)}
    if body is not None:
        headers["Content-Type"] = _APPLY if method == "PATCH" else "application/json"
    url = f"{cluster.host}{path}" + (f"?{urlencode(query)}" if query else "")
    return cluster.pool.request(
        method,
        url,
        body=None if body is None else json.dumps(body).encode(),
        headers=headers,
        timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=read_seconds),
        retries=_RETRIES,
        preload_content=not stream,
        redirect=False,
    )


def _credentials(cluster: Cluster) -> dict[str, str]:
    """The headers that log in. Refuses bad characters here: http.client's own message would print the token."""
    headers = cluster.auth_headers()
    if all(value.isascii() and value.isprintable() for value in headers.values()):
        return headers
    raise ClusterError(_UNSENDABLE.format(host=cluster.host, context=cluster.context))


def _split(response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
    """Lines without their newline; the last line may lack one."""
    rest = b""
    for chunk in response.stream(1 << 16, decode_content=True):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from whole
    if rest:
        yield rest


def _json(data: bytes) -> Object:
    decoded = json.loads(data) if data else {}
    return decoded if isinstance(decoded, dict) else {}


def _status(code: int, data: bytes) -> Object:
    """The server's Status. Plain text, of a proxy or an old server, becomes the message of a Status."""
    try:
        decoded = _json(data)
    except ValueError:
        decoded = {}
    if decoded.get("kind") == "Status":
        return decoded
    return {"code": code, "message": data.decode(errors="replace").strip()[:500] or f"HTTP status {code}"}


def _warning_text(header: str) -> str:
    """``299 - "text"`` without its frame. https://kubernetes.io/blog/2020/09/03/warnings/"""
    _, quote, text = header.partition('"')
    return text.removesuffix('"').replace('\\"', '"') if quote else header


@contextmanager
def _explained(cluster: Cluster) -> Iterator[None]:
    try:
        yield
    except HTTPError as error:
        cause = error.reason if isinstance(error, MaxRetryError) and error.reason else error
        raise _kind(cause)(f"{cluster.host}: {_reason(cause)} (context {cluster.context})") from error


def _kind(cause: BaseException) -> type[Unreachable]:
    if isinstance(cause, ReadTimeoutError):
        return Silent
    return Broken if isinstance(cause, ProtocolError) or _cut_off(cause) else Unreachable


def _cut_off(cause: BaseException) -> bool:
    """Reports if the connection ended early: Python's ssl reports that as a TLS error."""
    return isinstance(cause, SSLError) and "EOF" in str(cause)


def _reason(cause: BaseException) -> str:
    """The reason why no answer came, and the next step."""
    if isinstance(cause, NewConnectionError) and not isinstance(cause, NameResolutionError):
        return f"cannot connect: {str(cause).rpartition(': ')[2]}. Is the cluster up, and the context the right one?"
    if isinstance(cause, SSLError) and not _cut_off(cause):
        return f"TLS failed: {cause}. Check certificate-authority and client-certificate in the kubeconfig"
    for kind, text in _REASONS.items():
        if isinstance(cause, kind):
            return text
    return f"the connection broke ({type(cause).__name__}). Try again"

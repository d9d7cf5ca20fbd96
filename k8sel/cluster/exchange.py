"""Sends one HTTP request to the API server. Each exchange ends in time, and each answer has a largest size.

A server, or a proxy before it, may answer slowly, without an end, or with the request itself. Knows no object.
"""

from __future__ import annotations

import json
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar
from urllib.parse import urlencode

import urllib3
from urllib3.exceptions import (
    ConnectTimeoutError,
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    ProxyError,
    ReadTimeoutError,
    SSLError,
)

from k8sel.errors import ClusterError

Object = dict[str, Any]
Result = TypeVar("Result")
Opened = list[urllib3.BaseHTTPResponse]  # the answer that a thread reads

BODY_BYTES = 8 << 20  # the API server itself takes requests of at most 3 MiB; lists come in pages
LINE_BYTES = 256 << 10  # of a log
EXCHANGE_SECONDS = 60.0  # from the name's look-up to the last byte; an admission webhook may take 30 s
_CONNECT_SECONDS = 10
_GET_SECONDS = 15  # without any byte
_WRITE_SECONDS = 45
_PIECE = 1 << 16
_SHORT = 8  # a shorter token may be a part of ordinary text
_APPLY = "application/apply-patch+yaml"  # JSON is YAML; older servers know no apply-patch+json
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
    deadline: float = float("inf")  # of all exchanges, by time.monotonic()


@dataclass(frozen=True, kw_only=True, slots=True)
class Raw:
    """A complete answer, without the credentials of its request."""

    status: int
    headers: Mapping[str, str]
    warnings: tuple[str, ...]
    data: bytes


class Unreachable(ClusterError):
    """The server gave no answer."""


class Broken(Unreachable):
    """The connection broke during the answer, or the answer is not valid."""


class Silent(Unreachable):
    """The server accepted the connection and sent nothing in time."""


class Unusable(ClusterError):
    """The server answered, and the answer is none that k8sel can read."""


class OutOfTime(ClusterError):
    """The time for all exchanges is over."""

    exit_status = 124


def send(cluster: Cluster, method: str, path: str, query: Mapping[str, str], body: Object | None) -> Raw:
    """Sends a request and reads the whole answer."""
    credentials = _credentials(cluster)

    def exchange(opened: Opened) -> Raw:
        response = _open(cluster, credentials, method, path, query, body)
        opened.append(response)
        with closing(response):  # a connection that was read to the end is in the pool again
            return _read(cluster, response, credentials)

    return _in_time(cluster, exchange)


@contextmanager
def stream(
    cluster: Cluster, path: str, query: Mapping[str, str], read_seconds: float
) -> Iterator[Raw | Iterator[bytes]]:
    """The pieces of an answer as they come, until a silence of ``read_seconds``; a refusal comes whole."""
    credentials = _credentials(cluster)

    def begin(opened: Opened) -> tuple[urllib3.BaseHTTPResponse, Raw | None]:
        response = _open(cluster, credentials, "GET", path, query, None, read_seconds)
        opened.append(response)
        return response, _read(cluster, response, credentials) if response.status >= 400 else None

    response, refusal = _in_time(cluster, begin)
    try:
        with explained(cluster):
            yield refusal or response.stream(_PIECE, decode_content=False)
    finally:
        response.close()


def pause(cluster: Cluster, seconds: float) -> None:
    """Waits. Raises OutOfTime if the cluster's time ends before."""
    if time.monotonic() + seconds > cluster.deadline:
        raise _out_of_time(cluster)
    time.sleep(seconds)


def _in_time(cluster: Cluster, act: Callable[[Opened], Result]) -> Result:
    """Runs ``act`` in a thread: a server that sends a byte now and then keeps each read alive, and so no read ends."""
    outcome: queue.SimpleQueue[tuple[Result | None, BaseException | None]] = queue.SimpleQueue()
    opened: Opened = []
    given_up = threading.Event()

    def run() -> None:
        try:
            with explained(cluster):
                outcome.put((act(opened), None))
        except BaseException as error:
            outcome.put((None, error))
        if given_up.is_set():
            _close(opened)

    seconds = min(EXCHANGE_SECONDS, cluster.deadline - time.monotonic())
    if seconds <= 0:
        raise _out_of_time(cluster)
    threading.Thread(target=run, name="k8sel-request", daemon=True).start()
    try:
        result, error = outcome.get(timeout=seconds)
    except queue.Empty:
        given_up.set()
        for response in opened:  # ends the thread's read
            with suppress(AttributeError, ValueError, RuntimeError, OSError):  # urllib3 before 2.3 has no shutdown
                response.shutdown()
        raise _late(cluster) from None
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # set where there is no error


def _close(opened: Opened) -> None:
    for response in opened:
        response.close()


def _late(cluster: Cluster) -> ClusterError:
    if time.monotonic() >= cluster.deadline:
        return _out_of_time(cluster)
    return Unreachable(
        f"{cluster.host}: the answer is not complete after {EXCHANGE_SECONDS:g} s. "
        f"Check the network, VPN and proxy, then try again (context {cluster.context})"
    )


def _out_of_time(cluster: Cluster) -> OutOfTime:
    return OutOfTime(f"{cluster.host}: no answer before the time was over. `k8sel status` shows the job")


def _open(  # noqa: PLR0913, PLR0917 - one HTTP request has this many parts
    cluster: Cluster,
    credentials: Mapping[str, str],
    method: str,
    path: str,
    query: Mapping[str, str],
    body: Object | None,
    read_seconds: float | None = None,
) -> urllib3.BaseHTTPResponse:
    """Sends the request. Returns the answer up to its body."""
    headers = {"Accept": "application/json", "User-Agent": "k8sel", **credentials}
    if body is not None:
        headers["Content-Type"] = _APPLY if method == "PATCH" else "application/json"
    seconds = read_seconds or (_GET_SECONDS if method == "GET" else _WRITE_SECONDS)
    response = cluster.pool.request(
        method,
        f"{cluster.host}{path}" + (f"?{urlencode(query)}" if query else ""),
        body=None if body is None else json.dumps(body).encode(),
        headers=headers,
        timeout=urllib3.Timeout(connect=_CONNECT_SECONDS, read=seconds),
        retries=False,
        preload_content=False,
        redirect=False,
    )
    packed = response.headers.get("Content-Encoding", "identity")
    if packed != "identity":
        response.close()
        raise _unusable(cluster, f"the answer is compressed ({packed}), and k8sel accepts no compression")
    return response


def _credentials(cluster: Cluster) -> dict[str, str]:
    """The headers that log in. Refuses bad characters here: http.client's own message would print the token."""
    headers = cluster.auth_headers()
    if all(value.isascii() and value.isprintable() for value in headers.values()):
        return headers
    raise ClusterError(_UNSENDABLE.format(host=cluster.host, context=cluster.context))


def _secrets(credentials: Mapping[str, str]) -> list[str]:
    """The texts that no message may show: the values of the headers, and the tokens in them."""
    tokens = [value.rpartition(" ")[2] for value in credentials.values()]
    return [*credentials.values(), *(token for token in tokens if len(token) >= _SHORT)]


def _read(cluster: Cluster, response: urllib3.BaseHTTPResponse, credentials: Mapping[str, str]) -> Raw:
    """The whole answer, without the credentials in it: a proxy may send the request back."""
    secrets = _secrets(credentials)
    data = bytearray()
    for piece in response.stream(_PIECE, decode_content=False):
        data += piece
        if len(data) > BODY_BYTES:
            response.close()
            raise _unusable(cluster, f"the answer has more than {BODY_BYTES >> 20} MiB")
    return Raw(
        status=response.status,
        headers=response.headers,
        warnings=tuple(_without(secrets, text) for text in response.headers.getlist("Warning")),
        data=_without(secrets, data.decode("latin-1")).encode("latin-1"),  # every byte is one letter of Latin-1
    )


def _without(secrets: list[str], text: str) -> str:
    for secret in secrets:
        text = text.replace(secret, "[redacted]")
    return text


def _unusable(cluster: Cluster, found: str) -> Unusable:
    return Unusable(
        f"{cluster.host}: {found}. Check that this is a Kubernetes API server, not a proxy (context {cluster.context})"
    )


@contextmanager
def explained(cluster: Cluster) -> Iterator[None]:
    """Turns the client's errors into Unreachable, with the next step."""
    try:
        yield
    except HTTPError as error:
        raise _kind(error)(f"{cluster.host}: {_reason(error)} (context {cluster.context})") from error


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

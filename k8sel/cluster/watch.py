"""A list and watch that lasts: it resumes a dropped connection, and lists again if its version is too old."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from k8sel.cluster.rest import Broken, Cluster, Object, Refused, Silent, Unreachable, change, lines, request

_SERVER_SECONDS = 240  # the server ends each watch regularly after this time
_SILENCE_SECONDS = 75  # bookmarks come about once a minute: a longer silence means a dead connection
_PATIENCE_SECONDS = 300  # how long to wait for a server that does not answer
_PAUSES = (0.2, 0.5, 1, 2, 5)
_LINE_BYTES = 8 << 20  # a line is an object; the API server takes objects of at most 3 MiB


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """``listed``: all present objects, in place of the known ones. ``set`` and ``gone``: one object."""

    kind: Literal["listed", "set", "gone"]
    objects: tuple[Object, ...]


class _TooOldError(Exception):
    """410 Gone: the server no longer has the version from which the watch would continue."""


def watch(cluster: Cluster, path: str, query: Mapping[str, str], stop: threading.Event) -> Iterator[Change]:
    """All changes under ``path`` until ``stop``. Raises errors that waiting does not cure."""
    version = ""
    patience = _Patience(stop)
    while not stop.is_set():
        try:
            if not version:
                version, change = _listed(cluster, path, query)
                patience.renew()
                yield change
            for event in _events(cluster, path, {**query, "resourceVersion": version}, patience):
                version = event["object"]["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    yield Change(kind="gone" if event["type"] == "DELETED" else "set", objects=(event["object"],))
            stop.wait(_PAUSES[0])  # the watch ended regularly, or was silent
        except _TooOldError:
            version = ""
        except (Unreachable, Refused) as error:
            if isinstance(error, Refused):
                version = ""
            patience.spend(error)


def _listed(cluster: Cluster, path: str, query: Mapping[str, str]) -> tuple[str, Change]:
    listing = request(cluster, "GET", path, query=query).object
    return listing["metadata"]["resourceVersion"], Change(kind="listed", objects=tuple(listing.get("items") or ()))


def _events(cluster: Cluster, path: str, query: Mapping[str, str], patience: _Patience) -> Iterator[Object]:
    wanted = {**query, "watch": "true", "allowWatchBookmarks": "true", "timeoutSeconds": str(_SERVER_SECONDS)}
    try:
        with lines(cluster, path, query=wanted, read_seconds=_SILENCE_SECONDS, longest=_LINE_BYTES) as each:
            patience.renew()
            for line in each:
                yield _event(cluster, change(cluster, path, line))
    except Silent:
        return


def _event(cluster: Cluster, event: Object) -> Object:
    """Returns the event; raises an event of type ERROR."""
    if event["type"] != "ERROR":
        return event
    if event["object"].get("code") == 410:
        raise _TooOldError
    raise Refused(cluster, event["object"].get("code", 500), event["object"])


class _Patience:
    """Waits between attempts, longer each time, and gives up after a long time without success."""

    def __init__(self, stop: threading.Event) -> None:
        self.stop = stop
        self.worked = False  # no retry before the first success: the address or the right is wrong
        self.attempts = 0
        self.since = 0.0

    def renew(self) -> None:
        """Notes a success."""
        self.worked, self.attempts = True, 0

    def spend(self, error: Unreachable | Refused) -> None:
        """Notes a failure and waits. Raises ``error`` if another attempt is useless."""
        if self.attempts == 0:
            self.since = time.monotonic()
        final = isinstance(error, Refused) and error.code < 500 and error.code not in (408, 429)
        hopeless = not self.worked and not isinstance(error, Broken)
        if final or hopeless or time.monotonic() - self.since > _PATIENCE_SECONDS:
            raise error
        self.stop.wait(_PAUSES[min(self.attempts, len(_PAUSES) - 1)])
        self.attempts += 1

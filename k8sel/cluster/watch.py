"""A list and watch that lasts: it resumes a dropped connection, and lists again if its version is too old."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from k8sel.cluster.rest import Broken, Cluster, Object, Refused, Silent, Unreachable, change, lines, request

_SERVER_SECONDS = 240  # the server ends each watch regularly after this time
_SILENCE_SECONDS = 75  # bookmarks come about once a minute: a longer silence means a dead connection
PATIENCE_SECONDS = 300  # how long to wait for a server that does not answer
_PAUSES = (0.2, 0.5, 1, 2, 5)
_LINE_BYTES = 8 << 20  # a line is an object; the API server takes objects of at most 3 MiB


@dataclass(frozen=True, kw_only=True, slots=True)
class Change:
    """``listed``: all present objects, in place of the known ones. ``set`` and ``gone``: one object."""

    kind: Literal["listed", "set", "gone"]
    objects: tuple[Object, ...]


Away = Callable[[Unreachable | Refused | None], None]


class _TooOldError(Exception):
    """410 Gone: the server no longer has the version from which the watch would continue."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Subject:
    """The objects to watch: those of a list that are ``wanted``."""

    path: str
    query: Mapping[str, str]
    wanted: Callable[[Object], bool] = lambda _: True  # may ask the server, as often as its answer does not come


def watch(cluster: Cluster, subject: Subject, patience: Patience) -> Iterator[Change]:
    """All changes of the subject until the patience's ``stop``. Raises errors that waiting does not cure."""
    path, query, wanted, stop = subject.path, subject.query, subject.wanted, patience.stop
    version = ""
    while not stop.is_set():
        try:
            if not version:
                listed, items = _listed(cluster, path, query)
                change = Change(kind="listed", objects=tuple(item for item in items if wanted(item)))
                patience.renew()
                version = listed
                yield change
            for event in _events(cluster, path, {**query, "resourceVersion": version}, patience):
                ours = event["type"] != "BOOKMARK" and wanted(event["object"])
                version = event["object"]["metadata"]["resourceVersion"]
                if ours:
                    yield Change(kind="gone" if event["type"] == "DELETED" else "set", objects=(event["object"],))
            stop.wait(_PAUSES[0])  # the watch ended regularly, or was silent
        except _TooOldError:
            version = ""
        except (Unreachable, Refused) as error:
            if isinstance(error, Refused):
                version = ""
            patience.spend(error)


def _listed(cluster: Cluster, path: str, query: Mapping[str, str]) -> tuple[str, list[Object]]:
    listing = request(cluster, "GET", path, query=query).object
    return listing["metadata"]["resourceVersion"], listing.get("items") or []


def _events(cluster: Cluster, path: str, query: Mapping[str, str], patience: Patience) -> Iterator[Object]:
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


class Patience:
    """Waits between attempts, longer each time, and gives up after ``seconds`` without success.

    ``away`` gets the error of a server that does not answer, and None when it answers again.
    """

    def __init__(self, stop: threading.Event, away: Away = lambda _: None, seconds: float = PATIENCE_SECONDS) -> None:
        self.stop, self.away, self.seconds = stop, away, seconds
        self.worked = False  # no retry before the first success: the address or the right is wrong
        self.attempts = 0
        self.since = 0.0

    def renew(self) -> None:
        """Notes a success."""
        if self.attempts > 1:
            self.away(None)
        self.worked, self.attempts = True, 0

    def spend(self, error: Unreachable | Refused) -> None:
        """Notes a failure and waits. Raises ``error`` if another attempt is useless."""
        if self.attempts == 0:
            self.since = time.monotonic()
        final = isinstance(error, Refused) and error.code < 500 and error.code not in (408, 429)
        hopeless = not self.worked and not isinstance(error, Broken)
        if final or hopeless or time.monotonic() - self.since > self.seconds:
            raise error
        if self.attempts == 1:  # not the first: a broken connection is made again at once
            self.away(error)
        self.stop.wait(_PAUSES[min(self.attempts, len(_PAUSES) - 1)])
        self.attempts += 1

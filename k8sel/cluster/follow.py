"""Follows a job and its pods: two watches update one picture."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Literal

from k8sel.cluster import trouble
from k8sel.cluster.jobs import JobRef, LiveJob, Owner, get_job
from k8sel.cluster.rest import Cluster, Object, OutOfTime, Refused
from k8sel.cluster.status import Status, pods_of, read, warnings_of
from k8sel.cluster.watch import PATIENCE_SECONDS, Change, Patience, Subject, watch
from k8sel.errors import ClusterError
from k8sel.facts.kinds import core_path, pod_selector

_TICK_SECONDS = 1.0  # the step of time limits: the time-out, and the wait for an operator
_WARNINGS_SECONDS = 3.0
_LOOK_SECONDS = 5.0  # for the first look at a job, also where no time is left

Source = Literal["job", "pods"]
Message = (
    tuple[Source, Change | ClusterError | None] | Exception
)  # the error of a server that is away; None: it is back
Notice = Callable[[str], None]


@dataclass(kw_only=True, slots=True)
class Picture:
    """The job and its pods as the watches last reported them."""

    cluster: Cluster
    job: LiveJob
    pods: dict[str, Object] = field(default_factory=dict)  # by uid
    notice: Notice = lambda _: None
    gives_up: int = PATIENCE_SECONDS  # after so many seconds without an answer
    deleted: bool = False
    away: set[Source] = field(default_factory=set)  # watches that get no answer
    stop: threading.Event = field(default_factory=threading.Event)
    inbox: queue.SimpleQueue[Message] = field(default_factory=queue.SimpleQueue)
    _warnings: list[Object] = field(default_factory=list)
    _warned: float = float("-inf")

    def update(self, seconds: float) -> None:
        """Takes in changes; waits at most ``seconds`` for the first. Raises the error that ended a watch."""
        try:
            self._take(self.inbox.get(timeout=max(seconds, 0)))
            while True:
                self._take(self.inbox.get_nowait())
        except queue.Empty:
            return

    def status(self) -> Status:
        """The job's state in this picture."""
        pods = list(self.pods.values())
        found = read(self.job, pods, self._warnings)
        if found.finished or (found.phase == "Running" and len(pods) >= self.job.size):
            return found
        if time.monotonic() - self._warned > _WARNINGS_SECONDS:
            self._warned = time.monotonic()
            self._warnings = warnings_of(self.cluster, self.job, pods)
        return read(self.job, pods, self._warnings)

    def _take(self, message: Message) -> None:
        if isinstance(message, Exception):
            raise message
        source, news = message
        if not isinstance(news, Change):
            self._take_absence(source, news)
        elif source == "pods":
            self._take_pods(news)
        else:
            self._take_job(news)

    def _take_absence(self, source: Source, error: ClusterError | None) -> None:
        """Says once that the server is away, and once that it is back: two watches notice it."""
        before = bool(self.away)
        self.away = self.away | {source} if error else self.away - {source}
        if error and not before:
            self.notice(f"k8sel: no answer: {error}. The job goes on; k8sel tries again for {self.gives_up} s")
        if before and not self.away:
            self.notice("k8sel: the API server answers again")

    def _take_pods(self, change: Change) -> None:
        if change.kind == "listed":
            self.pods.clear()
        for pod in change.objects:
            if change.kind == "gone":
                self.pods.pop(pod["metadata"]["uid"], None)
            else:
                self.pods[pod["metadata"]["uid"]] = pod

    def _take_job(self, change: Change) -> None:
        ours = [each for each in change.objects if each["metadata"]["uid"] == self.job.uid]
        if ours:
            self.job = replace(self.job, object=ours[0])
        self.deleted = self.deleted or (change.kind == "listed" and not ours) or (change.kind == "gone" and bool(ours))


@contextmanager
def following(cluster: Cluster, ref: JobRef, notice: Notice, gives_up: int) -> Iterator[Picture]:
    """The picture of a job. The watches stop at the end of the block."""
    job = get_job(cluster, ref)
    pods = {pod["metadata"]["uid"]: pod for pod in pods_of(cluster, job)}
    picture = Picture(cluster=cluster, job=job, pods=pods, notice=notice, gives_up=gives_up)
    query = {"fieldSelector": f"metadata.name={job.name}"}
    _start(picture, "job", Subject(path=job.kind.path(job.namespace), query=query))
    path, owner = core_path("pods", job.namespace), Owner(cluster=cluster, job=job)
    _start(picture, "pods", Subject(path=path, query=pod_selector(job.name), wanted=owner.owns))
    try:
        yield picture
    finally:
        picture.stop.set()


def _start(picture: Picture, source: Source, subject: Subject) -> None:
    """Starts a watch in a daemon thread, so that a blocked read does not delay Ctrl-C."""

    def away(error: ClusterError | None) -> None:
        picture.inbox.put((source, error))

    def run() -> None:
        try:
            for change in watch(picture.cluster, subject, Patience(picture.stop, away, picture.gives_up)):
                picture.inbox.put((source, change))
        except Refused as refused:
            picture.inbox.put(trouble.clearly(picture.cluster, refused))
        except Exception as error:  # any fault: a watch that ends in silence looks like a cluster without changes
            picture.inbox.put(error)

    threading.Thread(target=run, name=f"k8sel-watch-{source}", daemon=True).start()


def deleted_meanwhile(job: LiveJob) -> ClusterError:
    """The error for a job that was deleted before its end."""
    return ClusterError(f"{job.kind.kind} {job.name} was deleted while k8sel followed it: it has no result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Outcome:
    """The result of waiting for a job, and the job's last state."""

    result: Literal["succeeded", "failed", "timeout"]
    status: Status


def wait(
    cluster: Cluster,
    ref: JobRef,
    *,
    timeout: float | None = None,
    on_change: Callable[[Status], None] = lambda _: None,
    on_notice: Notice = lambda _: None,
) -> Outcome:
    """Waits for the job's end, at most ``timeout`` seconds. ``on_change`` gets each new state, the first at once.

    ``on_notice`` gets a line when the API server is away or back.
    """
    deadline = float("inf") if timeout is None else time.monotonic() + timeout
    last: Status | None = None
    bounded = replace(cluster, deadline=deadline + _LOOK_SECONDS)
    with following(bounded, ref, on_notice, PATIENCE_SECONDS) as picture:
        while True:
            now = picture.status()
            if now.finished:
                now = _last_look(picture, now, last)
            if now != last:
                on_change(now)
            last = now
            if now.finished:
                return Outcome(result="succeeded" if now.phase == "Succeeded" else "failed", status=now)
            if picture.deleted:
                raise deleted_meanwhile(picture.job)
            if time.monotonic() >= deadline:
                return Outcome(result="timeout", status=now)
            with suppress(OutOfTime):  # of a watch: the next round returns
                picture.update(min(_TICK_SECONDS, deadline - time.monotonic()))


def _last_look(picture: Picture, now: Status, last: Status | None) -> Status:
    """Reads the pods once more: their watch may be behind the job's. Keeps the failure of pods that are deleted."""
    try:
        fresh = read(picture.job, pods_of(picture.cluster, picture.job))
    except ClusterError:
        fresh = now
    failure = fresh.failure or now.failure or (last.failure if last else None)
    return replace(fresh, failure=failure if fresh.phase == "Failed" else None)

"""Reads the logs of all pods of a job, line by line. Loses no line at restarts and broken connections."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass

from k8sel.cluster import trouble
from k8sel.cluster.follow import Notice, Picture, deleted_meanwhile, following
from k8sel.cluster.jobs import JobRef, LiveJob, get_job
from k8sel.cluster.pods import ended, in_order, main_container, main_status, node_name, started
from k8sel.cluster.rest import Cluster, Object, Refused, Silent, Unreachable, find, lines
from k8sel.cluster.status import Status, end, pods_of, removal, without_pod
from k8sel.facts.kinds import core_path

_SILENCE_SECONDS = 120  # then the reader opens the stream again: a dead connection looks like a silent program
_RETRY_SECONDS = 0.5
GIVE_UP_SECONDS = 60  # how long the API server or the node may stay away
_AFTER_END_SECONDS = 5  # of silence, after which a pod that outlives its job (an MPI worker's sshd) is ignored
_BACKLOG = 1_000  # lines of at most 256 KiB: a slow terminal slows the readers, and memory stays small


@dataclass(frozen=True, kw_only=True, slots=True)
class LogLine:
    """One line of a node's log."""

    node: str  # as in the plan
    pod: str
    text: str


OnLine = Callable[[LogLine], None]
OnChange = Callable[[Status], None]


def logs(  # noqa: PLR0913 - three callbacks, for three kinds of news
    cluster: Cluster,
    ref: JobRef,
    *,
    follow: bool = True,
    on_line: OnLine,
    on_change: OnChange = lambda _: None,
    on_notice: Notice = lambda _: None,
) -> None:
    """Passes every pod's lines to ``on_line``, in the calling thread.

    With ``follow`` it reads until the job has ended and its last line is out; a job that is deleted before its end is
    an error. It waits for pods that do not run yet. ``on_change`` gets each new state with its reason, ``on_notice`` a
    line when the API server is away or back, and one that names removed pods. Without ``follow`` it reads the present
    logs, node by node; for a restarted container, the previous lines first.
    """
    if follow:
        _Follower(cluster, on_line, on_change).run(ref, on_notice)
        return
    job = get_job(cluster, ref)
    pods = pods_of(cluster, job)
    for pod in sorted(pods, key=in_order):
        for text in _now(cluster, job, pod):
            on_line(_line(pod, job, text))
    _note_removed(job, {node_name(pod, job.name) for pod in pods}, on_notice)


def _note_removed(job: LiveJob, read: Collection[str], on_notice: Notice) -> None:
    """Names the pods of an ended job whose lines nobody can read any more, if a rank wrote there."""
    removed = without_pod(job, read)
    if job.kind.last is None or any(node.endswith(f"-{job.kind.last}") for node in removed):
        text = removal(job.kind.kind, removed, job.size)
        if text:
            on_notice(f"k8sel: {text}")


def _now(cluster: Cluster, job: LiveJob, pod: Object) -> Iterator[str]:
    """The present lines of a pod's log; none for a pod that has not started."""
    if not started(pod, job.kind):
        return
    query = {"container": main_container(pod, job.kind)}
    if main_status(pod, job.kind).get("restartCount"):
        yield from _read(cluster, pod, {**query, "previous": "true"})
    yield from _read(cluster, pod, query)


def _read(cluster: Cluster, pod: Object, query: dict[str, str]) -> Iterator[str]:
    try:
        with lines(cluster, _path(pod), query=query, read_seconds=_SILENCE_SECONDS) as each:
            for line in each:
                yield line.decode(errors="replace")
    except Refused as refused:
        if refused.code not in (400, 404):  # these mean: no log yet, or no longer
            raise trouble.clearly(cluster, refused) from refused


def _path(pod: Object) -> str:
    return core_path("pods", pod["metadata"]["namespace"], pod["metadata"]["name"]) + "/log"


def _line(pod: Object, job: LiveJob, text: str) -> LogLine:
    return LogLine(node=node_name(pod, job.name), pod=pod["metadata"]["name"], text=text)


class _Follower:
    """Starts a reader for each new pod, and passes on the lines of all readers."""

    def __init__(self, cluster: Cluster, on_line: OnLine, on_change: OnChange) -> None:
        self.cluster = cluster
        self.on_line = on_line
        self.on_change = on_change
        self.status: Status | None = None
        self.lines: queue.Queue[LogLine | Exception] = queue.Queue(maxsize=_BACKLOG)
        self.readers: dict[str, threading.Thread] = {}
        self.nodes: set[str] = set()  # that have a reader, or had one
        self.last = time.monotonic()  # the time of the last line
        self.ended = False

    def run(self, ref: JobRef, notice: Notice) -> None:
        with following(self.cluster, ref, notice, GIVE_UP_SECONDS) as picture:
            while True:
                picture.update(0)
                self._start_readers(picture)
                self._hand_on()
                if self._over(picture):
                    break
            present = {node_name(pod, picture.job.name) for pod in picture.pods.values()}
            _note_removed(picture.job, self.nodes | present, notice)
            if picture.deleted and end(picture.job.object) is None:
                raise deleted_meanwhile(picture.job)

    def _look(self, picture: Picture) -> Status:
        now = picture.status()
        if now != self.status:
            self.on_change(now)
        self.status = now
        return now

    def _all_pods(self, picture: Picture) -> bool:
        """Lists the pods once more: their watch may be behind the job's. Returns False if the server is away."""
        try:
            picture.pods |= {pod["metadata"]["uid"]: pod for pod in pods_of(self.cluster, picture.job)}
        except Unreachable:  # the watches decide how long to wait for a server
            return False
        return True

    def _start_readers(self, picture: Picture) -> None:
        for uid, pod in picture.pods.items():
            if uid not in self.readers and started(pod, picture.job.kind):
                reader = _Reader(self.cluster, picture.job, pod, self.lines, picture.stop)
                thread = threading.Thread(target=reader.run, name=f"k8sel-log-{pod['metadata']['name']}", daemon=True)
                self.readers[uid] = thread
                self.nodes.add(node_name(pod, picture.job.name))
                thread.start()

    def _hand_on(self) -> None:
        """Passes on all lines in the queue; waits a moment for the first."""
        try:
            message = self.lines.get(timeout=0.1)
            for _ in range(_BACKLOG):
                self._give(message)
                message = self.lines.get_nowait()
            self._give(message)
        except queue.Empty:
            return

    def _give(self, message: LogLine | Exception) -> None:
        if isinstance(message, Exception):
            raise message
        self.last = time.monotonic()
        self.on_line(message)

    def _over(self, picture: Picture) -> bool:
        """Reports if following may stop: the job and all readers have finished, or the other pods are silent."""
        if not (picture.deleted or self._look(picture).finished):
            self.last = time.monotonic()
            return False
        if not self.ended:
            self.ended = self._all_pods(picture)
            return False
        alive = {uid for uid, thread in self.readers.items() if thread.is_alive()}
        late = [pod for uid, pod in picture.pods.items() if uid not in self.readers and started(pod, picture.job.kind)]
        if not alive and not late and self.lines.empty():
            return True
        unread = any(uid in alive and ended(pod) for uid, pod in picture.pods.items())  # the rest of its log will come
        return not unread and time.monotonic() - self.last > _AFTER_END_SECONDS


class _Reader:
    """Reads one pod's log to its end. It goes on after a restart of the container or a broken connection.

    Each line has a time stamp (RFC 3339 with nine digits, so text order is time order). A new stream starts at the
    second of the last line, and the reader skips the lines that it already has.
    """

    def __init__(
        self,
        cluster: Cluster,
        job: LiveJob,
        pod: Object,
        out: queue.Queue[LogLine | Exception],
        stop: threading.Event,
    ) -> None:
        self.cluster, self.job, self.pod, self.out, self.stop = cluster, job, pod, out, stop
        self.stamp = b""  # of the last line
        self.same = 0  # lines with that stamp

    def run(self) -> None:
        """Passes on any fault: a reader that ends in silence looks like a program without output."""
        try:
            self._read()
        except Exception as fault:
            self.out.put(fault)

    def _read(self) -> None:
        lost_at = None
        while not self.stop.is_set():
            try:
                with suppress(Silent):  # a program without output, or a dead connection: the next request shows which
                    self._stream()
                if self._ended():
                    return
                lost_at = None
            except (Unreachable, Refused) as error:
                lost_at = lost_at or time.monotonic()
                if self._hopeless(error) or time.monotonic() - lost_at > GIVE_UP_SECONDS:
                    self._report(error)
                    return
            self.stop.wait(_RETRY_SECONDS)

    def _stream(self) -> None:
        query = {"follow": "true", "timestamps": "true", "container": main_container(self.pod, self.job.kind)}
        if self.stamp:
            query["sinceTime"] = self.stamp.decode()
        skip, before = self.same, self.stamp
        with lines(self.cluster, _path(self.pod), query=query, read_seconds=_SILENCE_SECONDS) as each:
            for line in each:
                stamp, _, text = line.partition(b" ")
                if stamp < before:
                    continue
                if stamp == before and skip:
                    skip -= 1
                    continue
                self._emit(stamp, text)

    def _emit(self, stamp: bytes, text: bytes) -> None:
        self.same = self.same + 1 if stamp == self.stamp else 1
        self.stamp = stamp
        self.out.put(_line(self.pod, self.job, text.decode(errors="replace")))

    def _ended(self) -> bool:
        """Reports if this pod has ended. A stream also ends at a container's restart or a log's rotation."""
        pod = find(self.cluster, core_path("pods", self.job.namespace, self.pod["metadata"]["name"]))
        return pod is None or pod["metadata"]["uid"] != self.pod["metadata"]["uid"] or ended(pod)

    @staticmethod
    def _hopeless(error: Unreachable | Refused) -> bool:
        """Reports if a retry is useless: the pod is deleted, or the user has no right. 400: the container restarts."""
        return isinstance(error, Refused) and error.code in (401, 403, 404)

    def _report(self, error: Unreachable | Refused) -> None:
        if isinstance(error, Refused) and error.code == 404:
            return
        self.out.put(trouble.clearly(self.cluster, error) if isinstance(error, Refused) else error)

"""Receipts from where they are: the logs of a job's pods, or a file. Says of each missing one why it is missing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from k8sel.cli import options
from k8sel.entrypoint import protocol
from k8sel.entrypoint.report import RECEIPT
from k8sel.errors import ClusterError
from k8sel.facts import names
from k8sel.receipts.collect import Line, Mixed, Receipts, collect, saved

if TYPE_CHECKING:
    from k8sel.cluster import Cluster, JobRef, LogLine, PodStatus, Status

_ENTRYPOINT = "k8sel: "  # what it puts in front of each of its lines
_ROTATED = "Of a long log the cluster keeps the last part (its kubelet's containerLogMaxSize)"
_LAUNCHER = "launcher"  # the role of the pod in whose log the other pods' processes write


def is_file(name: str) -> bool:
    """Whether ``name`` is a file and no job, which has neither dots nor slashes in its name."""
    return name == "-" or "." in name or "/" in name or Path(name).is_file()


def of_file(file: str) -> Receipts:
    """The receipts in a log, or in a document of receipts; - is standard input."""
    data = options.text(file, absent="`k8sel logs JOB > FILE`, or `k8sel receipt JOB -o json > FILE`, makes one")
    what = "standard input" if file == "-" else file
    try:
        found = saved(data) or collect(Line(text=text) for text in data.decode(errors="replace").splitlines())
    except Mixed as jobs:
        raise options.usage(f"{what} holds receipts of several jobs: {jobs}", "one file for each") from None
    except ValueError as error:
        raise options.usage(f"{what} cannot be read as receipts: {error}", "make it again with this k8sel") from None
    if found is None:
        raise options.usage(
            f"{what} holds no receipt",
            "a log that has its start, or what `k8sel receipt JOB -o json` printed",
        )
    return found


def of_job(at: Cluster, ref: JobRef) -> Receipts:
    """The receipts in the logs of a job's pods. Raises ClusterError where there is none."""
    from k8sel import cluster

    told = cluster.variable(at, ref, protocol.VARIABLE)
    seen = _Logs(cluster.status(at, ref))
    cluster.logs(at, ref, follow=False, on_line=seen.take)
    planned = _planned(told)
    found = collect(seen.receipts, planned)
    wanted = names.nodes(seen.status.name, seen.status.kind, planned) if planned else ()
    if found is None:
        every = wanted or [pod.node for pod in seen.status.pods]
        why = [seen.why(node) for node in every] if told else ["it is started without the entrypoint (mode: none)"]
        raise ClusterError(f"{ref.name} has left no receipt: {'; '.join(dict.fromkeys(why))}")
    here = found.named()
    missing = set(wanted) - set(here) if len(here) < len(wanted) else set()
    remarks = (f"node {node}: no receipt: {seen.why(node)}" for node in wanted if node in missing)
    return replace(found, remarks=tuple(remarks))


def _planned(told: str | None) -> int | None:
    """The number of nodes that the entrypoint was told; None where it is of another version, or not there."""
    try:
        return protocol.parse(told or "").nodes
    except ValueError:
        return None


@dataclass
class _Logs:
    """What the logs of a job's pods hold, as far as it matters here."""

    status: Status
    receipts: list[Line] = field(default_factory=list)
    spoken: dict[str, bool] = field(default_factory=dict)  # node with a log -> the entrypoint has written in it

    def take(self, line: LogLine) -> None:
        """One line of any pod."""
        if RECEIPT in line.text:
            launcher = any(pod.name == line.pod and pod.role == _LAUNCHER for pod in self.status.pods)
            self.receipts.append(Line(text=line.text, node=None if launcher else line.node))
        own = line.text.startswith((_ENTRYPOINT, RECEIPT))
        self.spoken[line.node] = self.spoken.get(line.node, False) or own

    def why(self, node: str) -> str:
        """Why there is no receipt of ``node``."""
        pod = self._pod(node)
        if pod is None:
            return "its pod is gone, and its log with it"
        if pod.phase == "Pending":
            return f"{pod.node} has not started"
        if pod.node not in self.spoken:
            return f"the log of {pod.node} is empty: its start is still to come, or gone. {_ROTATED}"
        if not self.spoken[pod.node]:
            return f"the start of {pod.node}'s log is gone. {_ROTATED}"
        return f"{pod.node} did not start the program: `k8sel status` says why"

    def _pod(self, node: str) -> PodStatus | None:
        """The pod in whose log the node's processes write."""
        launchers = [pod for pod in self.status.pods if pod.role == _LAUNCHER]
        own = [pod for pod in self.status.pods if pod.node == node]
        return next(iter(launchers or own), None)

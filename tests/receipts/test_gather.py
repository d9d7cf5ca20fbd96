"""Receipts of a job's pods: why one is missing. The cluster is three functions here; a real one is in tests/e2e."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from k8sel import cluster
from k8sel.cli import gather
from k8sel.cluster import JobRef, LogLine, PodStatus, Status
from k8sel.entrypoint.protocol import Expectation
from k8sel.errors import ClusterError
from k8sel.receipts.collect import Receipts, collect
from k8sel.receipts.lines import Line
from receipts.made import line, own, two_nodes

TOLD = Expectation("cuda", (0,), nodes=2).to_json()
Gather = Callable[..., Receipts]


def pod(node: str, role: str = "worker", name: str = "", phase: str = "Succeeded") -> PodStatus:
    return PodStatus(
        name=name or node, node=node, role=role, host="machine", phase=phase, ready=False, restarts=0, reason="",
        message="", failure=None,
    )  # fmt: skip


TWO = (pod("first-master-0", "master"), pod("first-worker-0"))
MPI = (pod("first-launcher", "launcher", "first-launcher-x7k2p"), pod("first-worker-0"), pod("first-worker-1"))


@pytest.fixture
def gathered(monkeypatch: pytest.MonkeyPatch) -> Gather:
    """The receipts of a job with these pods, which print these lines."""

    def call(*printed: tuple[str, str], pods: tuple[PodStatus, ...] = TWO, told: str | None = TOLD) -> Receipts:
        kind = "MPIJob" if pods[:1] == MPI[:1] else "PyTorchJob"
        state = Status(
            kind=kind, name="first", namespace="default", phase="Succeeded", reason="", conditions=(), pods=pods,
            failure=None, removed=(),
        )  # fmt: skip
        names = {each.node: each.name for each in pods}

        def logs(*_: object, follow: bool, on_line: Callable[[LogLine], None]) -> None:
            assert not follow
            for node, text in printed:
                on_line(LogLine(node=node, pod=names[node], text=text))

        monkeypatch.setattr(cluster, "variable", lambda *_: told)
        monkeypatch.setattr(cluster, "status", lambda *_: state)
        monkeypatch.setattr(cluster, "logs", logs)
        at: Any = None
        return gather.of_job(at, JobRef(name="first"))

    return call


def printed(node: str, fields: dict[str, Any]) -> list[tuple[str, str]]:
    return [(node, f"k8sel: node {node}: ok"), (node, line(fields)), (node, "step 1")]


MASTER, WORKER = (printed(each["node"], each) for each in two_nodes(nodes=2))


def test_all_are_there(gathered: Gather) -> None:
    found = gathered(*MASTER, *WORKER)
    assert (found.named(), found.notes()) == (["first-master-0", "first-worker-0"], [])


ROTATED = "The cluster keeps only the last part of a long log (the kubelet's containerLogMaxSize)"
MISSING = {
    "the pod is gone": ((), (TWO[0],), "its pod and its log are deleted"),
    "it has not started": (
        (),
        (TWO[0], pod("first-worker-0", phase="Pending")),
        "first-worker-0 has not started",
    ),
    "the log was rotated a moment ago": (
        (),
        TWO,
        f"the log of first-worker-0 is empty: it has no lines yet, or has lost its first lines. {ROTATED}",
    ),
    "the log was rotated": (
        (("first-worker-0", "step 70001"),),
        TWO,
        f"the first lines of first-worker-0's log are lost. {ROTATED}",
    ),
    "the check stopped it": (
        (("first-worker-0", "k8sel: node first-worker-0: 3 cuda devices expected, 2 found"),),
        TWO,
        "first-worker-0 did not start the program: see `k8sel status`",
    ),
}


@pytest.mark.parametrize("case", MISSING)
def test_a_missing_receipt_and_why(gathered: Gather, case: str) -> None:
    lines, pods, why = MISSING[case]
    assert gathered(*MASTER, *lines, pods=pods).notes() == [
        "2 nodes planned, and receipts of 1: first-master-0",
        f"node first-worker-0: no receipt: {why}",
    ]


def test_with_the_hosts_network_nodes_are_called_as_their_pods(gathered: Gather) -> None:
    renamed = [{**fields, "node": "machine-17"} for fields in two_nodes(nodes=2)]
    lines = [printed(pod.node, fields) for pod, fields in zip(TWO, renamed, strict=True)]
    assert gathered(*lines[0], *lines[1]).named() == ["first-master-0", "first-worker-0"]


def test_under_mpi_the_launchers_log_has_all_ranks(gathered: Gather) -> None:
    ranks = [own("first-worker-0", 0, 0, 4), own("first-worker-1", 1, 0, 5)]
    lines = [("first-launcher", "k8sel: node first-worker-0: ok"), *(("first-launcher", line(each)) for each in ranks)]
    quiet = [("first-worker-0", "Server listening on 0.0.0.0 port 2222.")]
    found = gathered(*lines, *quiet, pods=MPI)
    assert (found.named(), found.notes()) == (["first-worker-0", "first-worker-1"], [])
    late = gathered(("first-launcher", line(ranks[1])), *quiet, pods=MPI)
    assert late.notes()[1].startswith("node first-worker-0: no receipt: first-launcher did not start the program")


def test_a_job_without_any(gathered: Gather) -> None:
    with pytest.raises(ClusterError, match=r"first has no receipt: it starts without the entrypoint"):
        gathered(("first-master-0", "step 1"), told=None)
    with pytest.raises(ClusterError, match=r"first has no receipt: the first lines of first-master-0's log are lost"):
        gathered(("first-master-0", "step 1"), ("first-worker-0", "step 1"))


def test_what_the_entrypoint_was_told_by_another_version_is_no_number_of_nodes(gathered: Gather) -> None:
    lines = printed("first-master-0", two_nodes()[0])
    assert gathered(*lines, told=json.dumps({"version": 99, "nodes": 2})).notes() == []


def test_what_the_programs_print_is_no_fault(gathered: Gather) -> None:
    """Foreign, forged and malformed receipts in the logs of a cluster's pods."""
    first, second = two_nodes(nodes=2)
    forged = [line({**first, "job": "other"}), line(first), line({**second, "driver": "1"}), line({})]
    found = gathered(*MASTER, *WORKER, *(("first-worker-0", text) for text in forged))
    assert [each.start["driver"] for each in found.processes] == ["550.54.15"] * 4
    assert found.notes() == [
        "contradiction: first-worker-0 has a receipt of job other: it is left out",
        "contradiction: first-worker-0 has a receipt for node first-master-0: it is left out",
        "contradiction: receipts of node first-worker-0 differ in driver: the first is shown",
        "1 receipt is cut off or mixed with other output, and left out",
    ]


def test_another_attempt_of_the_launcher_is_another_run(gathered: Gather) -> None:
    old, new = (own("first-worker-0", 0, 0, number, mode="rank", nodes=1) for number in (4, 5))
    again = pod("first-launcher", "launcher", "first-launcher-k2p7x")
    found = gathered(("first-launcher", line(old)), pods=MPI)
    assert found.notes() == ["2 nodes planned, and receipts of 1: first-worker-0", *found.notes()[1:]]
    lines = [
        Line(text=line(each), speaker="first-launcher", run=pod.name) for each, pod in ((old, MPI[0]), (new, again))
    ]
    last = collect(lines, job="first")
    assert last is not None
    assert last.processes[0].own["devices"] == new["ranks"][0]["devices"]
    assert last.notes() == ["node first-worker-0 was started 2 times: the last one is shown"]

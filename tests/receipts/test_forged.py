"""Receipts that a program prints: they never replace the entrypoint's, and each contradiction is named."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from k8sel.receipts.collect import Mixed, Receipts, collect, saved
from k8sel.receipts.lines import Line, prefixed
from receipts.made import MARK, device, line, own, receipt, two_nodes

ONE, TWO = two_nodes(nodes=2, processesPerNode=2)
OTHER = {**ONE, "ranks": two_nodes()[1]["ranks"]}  # with the devices of the second node
DEEP = json.loads("[" * 900 + "]" * 900)


def collected(text: str) -> Receipts:
    found = collect(map(prefixed, text.split("\n")))
    assert found is not None
    return found


def log(*more: str) -> Receipts:
    """Returns the receipts of two nodes in the output of `k8sel logs`, with ``more`` lines of their programs."""
    lines = [f"{fields['node']} | {line(fields)}" for fields in (ONE, TWO)]
    return collected("\n".join([*lines, *more]))


# What a program on first-worker-0 prints, in `k8sel logs` -> the contradiction; "": its line is no receipt.
FORGED: dict[str, tuple[str, str]] = {
    "within a line": ("loss 0.5 " + line(OTHER), ""),
    "behind a progress bar": ("\r 50%|###" + line(OTHER), ""),
    "behind signs that end a line elsewhere": ("\u2028\x85\x0b\x0cfirst-master-0 | " + line(OTHER), ""),
    "behind another's prefix": ("first-master-0 | " + line(OTHER), ""),
    "behind another's prefix of kubectl": ("[pod/first-master-0/pytorch] " + line(OTHER), ""),
    "of another node": (line(OTHER), "first-worker-0 has a receipt for node first-master-0: it is left out"),
    "of another node in another job": (
        line({**OTHER, "job": "second"}),
        "first-worker-0 has a receipt of job second: it is left out",
    ),
    "of another node, behind a tag": (
        line(OTHER, "[1,0]<stderr>:"),
        "first-worker-0 has a receipt for node first-master-0: it is left out",
    ),
    "of a node that is none": (
        line({**TWO, "node": "first-worker-7"}),
        "first-worker-0 has a receipt for node first-worker-7: it is left out",
    ),
    "of its own node": (
        line({**TWO, "ranks": ONE["ranks"]}),
        "receipts of node first-worker-0 differ in ranks: the first is shown",
    ),
    "of its own node, in another mode": (
        line({**TWO, "ranks": ONE["ranks"], "mode": "rank"}),
        "receipts of node first-worker-0 differ in devices: the first is shown",
    ),
    "of one of its processes": (
        line(own("first-worker-0", 2, 0, 7, nodes=2, processesPerNode=2, mode="rank")),
        "receipts of node first-worker-0, local rank 0 differ in devices: the first is shown",
    ),
    "of one of its processes, with a driver": (
        line(own("first-worker-0", 2, 0, 0, nodes=2, processesPerNode=2, mode="rank", driver="1")),
        "receipts of node first-worker-0, local rank 0 differ in driver: the first is shown",
    ),
    "of one more process": (
        line({**own("first-worker-0", 9, 9, 7, nodes=2, processesPerNode=2), "rank": "0"}),
        "rank 0 is that of 2 processes: first-master-0/0, first-worker-0/9",
    ),
    "of its machine": (
        line({**TWO, "node": "machine-17", "driver": "1"}),
        "receipts of node first-worker-0 differ in driver: the first is shown",
    ),
}


@pytest.mark.parametrize("case", FORGED)
def test_what_a_worker_prints(case: str) -> None:
    text, contradiction = FORGED[case]
    found, honest = log(f"first-worker-0 | {text}"), log()
    assert list(found.contradictions) == ([contradiction] if contradiction else [])
    shown = [(each.rank, each.node, each.own, each.start) for each in found.processes]
    assert shown[:4] == [(each.rank, each.node, each.own, each.start) for each in honest.processes] or len(shown) == 5
    assert all(each.start in (ONE, TWO) for each in found.processes if each.local_rank < 9)


def test_a_receipt_in_front_of_all_others_is_a_contradiction_too() -> None:
    """A log without prefixes does not show which node wrote a line."""
    found = collected("\n".join([line(OTHER), line(ONE), line(TWO)]))
    assert found.contradictions == ("receipts of node first-master-0 differ in ranks: the first is shown",)


def test_more_nodes_than_planned() -> None:
    found = collected("\n".join(map(line, (ONE, TWO, receipt("first-worker-1", 0, rank="2", nodes=2)))))
    assert found.contradictions == (
        "2 nodes planned, and receipts of 3: first-master-0, first-worker-0, first-worker-1",
        "rank 2 is that of 2 processes: first-worker-0/0, first-worker-1/0",
    )


def test_nodes_that_were_started_by_hand_are_planned_alone() -> None:
    each = [receipt(node, 0, rank="0", job="", nodes=1) for node in ("one", "two")]
    assert collected("\n".join(map(line, each))).contradictions == ()


LAUNCHERS = ["first-launcher | ", "[pod/first-launcher-x7k2p/launcher] "]


@pytest.mark.parametrize("prefix", LAUNCHERS)
def test_mpis_launcher_prints_the_receipts_of_all_ranks(prefix: str) -> None:
    each = [own(f"first-worker-{node}", node, 0, node, mode="rank") for node in (0, 1)]
    found = collected("\n".join(line(fields, prefix) for fields in each))
    assert (found.named(), found.contradictions) == (["first-worker-0", "first-worker-1"], ())
    workers = collected("\n".join([*(line(fields, prefix) for fields in each), line(each[0], "first-worker-1 | ")]))
    assert workers.contradictions == ("first-worker-1 has a receipt for node first-worker-0: it is left out",)


def test_a_worker_does_not_restart_the_launchers_rank() -> None:
    """A receipt in a worker's own log is of another writer than that in the launcher's."""
    fields = own("first-worker-0", 0, 0, 0, mode="rank")
    forged = {**fields, "driver": "1"}
    found = collect(
        [
            Line(text=line(fields), speaker="first-launcher", run="first-launcher-aaaaa"),
            Line(text=line(forged), speaker="first-worker-0", run="first-worker-0"),
        ],
        job="first",
    )
    assert found is not None
    assert (found.processes[0].start["driver"], len(found.contradictions)) == ("550.54.15", 1)


def test_the_hosts_network() -> None:
    """Nodes have their machines' names there, and the prefix is the pod's."""
    each = [
        f"{fields['node']} | {line({**fields, 'node': machine})}" for fields, machine in ((ONE, "m-1"), (TWO, "m-2"))
    ]
    found = collected("\n".join(each))
    assert (found.named(), found.contradictions) == (["first-master-0", "first-worker-0"], ())


def test_a_foreign_line_in_a_jobs_log() -> None:
    lines = [
        Line(text=line(ONE), speaker="first-master-0"),
        Line(text=line(two_nodes("second")[0]), speaker="first-master-0"),
    ]
    found = collect(lines, job="first")
    assert found is not None
    assert found.contradictions == ("first-master-0 has a receipt of job second: it is left out",)


@pytest.mark.parametrize(
    "fields", [{"how": DEEP}, {"libraries": {"torch": DEEP}}, {"ranks": [{"localRank": 0, "x": DEEP}]}]
)
def test_a_receipt_that_is_nested_without_reason(fields: dict[str, Any]) -> None:
    found = log(f"first-worker-0 | {line({**TWO, **fields})}")
    assert (found.broken, found.contradictions) == (1, ())


def test_a_mark_within_a_receipt() -> None:
    """As in a variable of the image, which the receipt shows."""
    inner = {**TWO, "variables": {"K8SEL_X": line(OTHER)}}
    found = collected(f"first-worker-0 | {line(inner)}")
    assert (found.broken, found.named(), found.contradictions) == (0, ["first-worker-0"], ())


@pytest.mark.parametrize(
    "text",
    [MARK * 200_000, (MARK + "{") * 100_000, MARK + '"' * 500_000, "a" * 3_000_000, "\x1b[1m" + "a/" * 1_000_000],
    ids=["marks", "braces", "quotes", "a name", "a colour"],
)
def test_a_long_line_takes_linear_time(text: str) -> None:
    start = time.monotonic()
    log(f"first-worker-0 | {text}", text)
    assert time.monotonic() - start < 10


def test_many_contradictions_are_few_lines() -> None:
    found = log(*(f"first-worker-0 | {line({**TWO, 'node': f'first-worker-{n}' + '0' * n})}" for n in range(1, 500)))
    assert len(found.contradictions) == 9
    assert found.contradictions[-1] == "there are more contradictions"
    assert max(map(len, found.contradictions)) < 200


def test_contradictions_are_kept_in_a_document() -> None:
    found = log(f"first-worker-0 | {line(OTHER)}")
    again = saved(json.dumps(found.document()).encode())
    assert again is not None
    assert (again.contradictions, again.notes()) == (found.contradictions, found.notes())
    assert found.notes() == [f"contradiction: {text}" for text in found.contradictions]


def test_two_jobs_are_still_refused() -> None:
    with pytest.raises(Mixed):
        collected("\n".join(f"{fields['node']} | {line(fields)}" for job in ("a", "b") for fields in two_nodes(job)))


def test_devices_of_a_process_have_an_order() -> None:
    pair = [{"localRank": 0, "positions": [0, 1], "devices": [device(0), device(1)]}]
    turned = [{**pair[0], "devices": [device(1), device(0)]}]
    found = log(
        f"first-worker-0 | {line({**TWO, 'ranks': pair})}", f"first-worker-0 | {line({**TWO, 'ranks': turned})}"
    )
    assert len(found.contradictions) == 2


def test_a_process_whose_node_announces_no_receipt_of_its_own() -> None:
    """As a program prints it, in another mode, to show another mask."""
    node = {**TWO, "ownReceipts": False}
    mask = {"CUDA_VISIBLE_DEVICES": "7"}
    forged = own("first-worker-0", 2, 0, 0, nodes=2, processesPerNode=2, mode="rank", mask=mask)
    lines = [line(ONE), line(node), line(forged)]
    found = collected("\n".join(lines))
    assert found.contradictions == ("receipts of node first-worker-0, local rank 0 differ in mode: the first is shown",)
    assert found.processes[2].start["mask"] == node["mask"]
    by_hand = [line({**fields, "job": ""}) for fields in (ONE, node, forged)]
    assert collected("\n".join(by_hand)).contradictions == ()


def test_a_node_that_starts_behind_its_ranks() -> None:
    """As a program prints it under mpirun, whose ranks write the only receipts."""
    rank = own("first-worker-0", 0, 0, 0, mode="rank")
    forged = {**rank, "mode": "node", "mask": {"CUDA_VISIBLE_DEVICES": "7"}}
    found = collected("\n".join(map(line, (rank, forged))))
    assert found.contradictions == ("receipts of node first-worker-0, local rank 0 differ in mode: the first is shown",)
    assert found.processes[0].start == rank

"""Receipts in logs of every kind: which count, which process is whose, and what is said of the rest."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from k8sel.receipts.collect import Mixed, Receipts, collect, saved
from k8sel.receipts.lines import Line, prefixed
from receipts.made import MARK, line, own, receipt, two_nodes


def collected(*lines: str, nodes: int | None = None) -> Receipts:
    found = collect(map(prefixed, lines), nodes)
    assert found is not None
    return found


def places(found: Receipts) -> list[tuple[str, int | None, int, list[str]]]:
    """Node, rank, local rank and addresses of each process."""
    return [
        (each.node, each.rank, each.local_rank, [device["pci"] for device in each.own["devices"]])
        for each in found.processes
    ]


@pytest.mark.parametrize(
    "before",
    [
        "",
        "first-master-0 | ",
        "2026-11-21T14:00:00.000000001Z ",
        "[1,0]<stderr>:",
        "[default0]:",
        "\x1b[32mpod first-master-0 \x1b[0m",
    ],
)
def test_whatever_stands_in_front_of_it(before: str) -> None:
    assert places(collected("noise", line(receipt("first-master-0", 3), before), "noise")) == [
        ("first-master-0", 0, 0, ["0000:03:00.0"])
    ]


def test_what_stands_behind_it() -> None:
    assert len(collected(line(receipt("first-master-0", 3)) + "[rank1]: step 1").processes) == 1


def test_a_node_that_starts_several_has_its_own_number_for_rank() -> None:
    assert [(node, rank, local) for node, rank, local, _ in places(collected(*map(line, reversed(two_nodes()))))] == [
        ("first-master-0", 0, 0),
        ("first-master-0", 1, 1),
        ("first-worker-0", 2, 0),
        ("first-worker-0", 3, 1),
    ]


def test_processes_that_write_their_own_say_their_rank() -> None:
    written = [own("first-worker-1", 3, 1, 7), own("first-worker-0", 1, 1, 5), own("first-worker-0", 0, 0, 4)]
    assert places(collected(*map(line, written))) == [
        ("first-worker-0", 0, 0, ["0000:04:00.0"]),
        ("first-worker-0", 1, 1, ["0000:05:00.0"]),
        ("first-worker-1", 3, 1, ["0000:07:00.0"]),
    ]


def test_a_processs_own_receipt_counts_more_than_its_nodes() -> None:
    """As with isolation: process under torchrun: the node writes one, then each process."""
    lines = [line(receipt("first-master-0", 3, 1, rank="0")), line(own("first-master-0", 1, 1, 1, threads="7"))]
    found = collected(*lines)
    assert [device for *_, device in places(found)] == [["0000:03:00.0"], ["0000:01:00.0"]]
    assert [each.start["threads"] for each in found.processes] == ["4", "7"]
    assert (found.earlier, found.notes()) == ({}, [])


def test_workers_are_counted_as_numbers() -> None:
    written = [receipt(f"first-worker-{number}", 0, rank=str(number + 1)) for number in (10, 9, 1)]
    assert collected(*map(line, written)).named() == ["first-worker-1", "first-worker-9", "first-worker-10"]


def test_the_last_start_counts_and_is_said_to_be_one_of_several() -> None:
    starts = [line(receipt("first-master-0", number, rank="0")) for number in (1, 2, 3)]
    found = collect(Line(text=text, speaker="first-master-0", run=f"{n}") for n, text in enumerate(starts))
    assert found is not None
    assert [device for *_, device in places(found)] == [["0000:03:00.0"]]
    assert found.notes() == ["node first-master-0 was started 3 times: the last one is shown"]


def test_equal_receipts_are_starts_of_one_container() -> None:
    found = collected(*[line(receipt("first-master-0", 1, rank="0"))] * 3)
    assert found.notes() == ["node first-master-0 was started 3 times: the last one is shown"]


def test_a_node_and_its_one_process_are_no_second_start() -> None:
    fields = receipt("first-master-0", 1, rank="0", mode="node")
    assert collected(line(fields), line({**fields, "mode": "rank"})).notes() == []


@pytest.mark.parametrize(
    "text",
    [
        MARK + '{"node":"first-master-0","ranks":[{"localRank":0,"dev',
        MARK + "nothing",
        MARK + "[]",
        MARK + '{"node":1,"ranks":[{"localRank":0}]}',
        MARK + '{"node":"a","ranks":[]}',
        MARK + '{"node":"a","ranks":[{"localRank":true}]}',
        MARK + '{"node":"a","ranks":[{"localRank":0,"devices":["x"]}]}',
        MARK + '{"node":"a","ranks":[{"localRank":0,"devices":[{"numa":NaN}]}]}',
        MARK + "[" * 100_000,
    ],
)
def test_a_receipt_that_cannot_be_read_is_counted(text: str) -> None:
    found = collected(text, line(receipt("first-master-0", 0)))
    assert len(found.processes) == 1
    assert found.notes() == ["1 receipt is cut off or mixed with other output, and left out"]


def test_a_missing_node_is_said() -> None:
    assert collected(line(two_nodes()[0]), nodes=2).notes() == ["2 nodes planned, and receipts of 1: first-master-0"]
    assert collected(line(two_nodes(nodes=2)[1])).notes() == ["2 nodes planned, and receipts of 1: first-worker-0"]
    assert collected(*map(line, two_nodes(nodes=2)), nodes=2).notes() == []


def test_a_missing_process_is_said() -> None:
    written = [own("first-worker-0", 0, 0, 4, processesPerNode=3), own("first-worker-0", 2, 2, 5, processesPerNode=3)]
    assert collected(*map(line, written)).notes() == ["node first-worker-0: 3 processes planned, and receipts of 2"]


def test_a_node_that_is_called_otherwise_where_its_log_was() -> None:
    """With the host's network, a pod's host name is the machine's."""
    found = collect([Line(text=line(receipt("machine-17", 0)), speaker="first-master-0")])
    assert found is not None
    assert found.named() == ["first-master-0"]


def test_receipts_of_two_jobs_are_not_mixed() -> None:
    with pytest.raises(Mixed, match="first, second"):
        collected(*map(line, [*two_nodes("first"), *two_nodes("second")]))


def test_receipts_of_two_jobs_of_one_machine_are_not_mixed() -> None:
    with pytest.raises(Mixed, match="first, second"):
        collected(*(line(receipt("workstation", 0, job=job)) for job in ("first", "second")))


def test_lines_that_became_one() -> None:
    first, second = map(line, two_nodes())
    assert len(collected(first + second).processes) == 4
    cut = collected(first[:80] + second)
    assert (cut.named(), cut.broken) == (["first-worker-0"], 1)


def test_no_receipt() -> None:
    assert collect([Line(text="step 1 loss 0.5")]) is None


def test_a_document_is_read_as_it_was_written() -> None:
    lines = [*map(line, two_nodes()), line(two_nodes()[0]), MARK + "{"]
    found = collected(*lines, nodes=3)
    data = json.dumps(found.document()).encode()
    again = saved(data)
    assert again is not None
    assert again.document() == found.document()
    assert places(again) == places(found)


@pytest.mark.parametrize("text", ["", "{}", "[]", "[" * 99999, "step 1", '{"receipts": 1}', line(two_nodes()[0])])
def test_anything_else_is_no_document(text: str) -> None:
    assert saved(text.encode()) is None


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"version": 2, "receipts": []}, "its version is 2, and this k8sel reads version 1"),
        ({"version": 1, "receipts": []}, "its receipts cannot be read"),
        ({"version": 1, "receipts": [{"node": 1}]}, "its receipts cannot be read"),
    ],
)
def test_a_document_that_cannot_be_read_says_why(document: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        saved(json.dumps(document).encode())


VALUES = some.recursive(
    some.none() | some.booleans() | some.integers() | some.text(max_size=5),
    lambda inner: some.lists(inner, max_size=3) | some.dictionaries(some.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


KEYS = [*(name for name in receipt("a", 0) if name != "job"), "nodes", "processesPerNode", "mode"]


@given(some.dictionaries(some.sampled_from(KEYS), VALUES))
def test_whatever_a_log_holds_it_is_read_or_counted(fields: dict[str, Any]) -> None:
    found = collect([Line(text=line({**receipt("a", 0), **fields})), Line(text=line(receipt("a", 1)))])
    assert found is not None
    assert found.processes
    assert isinstance(found.notes(), list)


def test_a_job_that_is_no_text_is_no_fault() -> None:
    assert len(collected(line(receipt("first-master-0", 3, job=["first"]))).processes) == 1

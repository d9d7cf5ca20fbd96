"""Tests the differences between two starts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from k8sel.receipts.collect import Receipts, collect
from k8sel.receipts.compare import Compared, compare
from k8sel.receipts.lines import Line
from receipts.made import device, line, own, receipt, two_nodes

Fields = dict[str, Any]


def read(*receipts: Fields) -> Receipts:
    found = collect(Line(text=line(fields)) for fields in receipts)
    assert found is not None
    return found


def differing(a: list[Fields], b: list[Fields]) -> list[tuple[str, Any, Any, tuple[int, ...]]]:
    return [(each.field, each.a, each.b, each.ranks) for each in compare(read(*a), read(*b)).differences]


def with_device(number: int, local: int, **changed: object) -> list[Fields]:
    """Two nodes, of which one process's device is another, or is said otherwise."""
    nodes = two_nodes()
    nodes[number]["ranks"][local]["devices"][0].update(changed)
    return nodes


def test_the_same_is_equal_whatever_the_jobs_are_called() -> None:
    assert differing(two_nodes("first"), two_nodes("first")) == []
    assert differing(two_nodes("first"), two_nodes("second")) == []
    compared = compare(read(*two_nodes("first")), read(*two_nodes("second")))
    assert (compared.processes, compared.nodes, compared.unknown) == (4, 2, ())


@pytest.mark.parametrize(
    ("changed", "before"),
    [
        ({"uuid": "GPU-x"}, "GPU-0000-00000000"),
        ({"pci": "0000:ff:00.0"}, "0000:00:00.0"),
        ({"numa": 1}, 0),
        ({"numa": None}, 0),
    ],
)
def test_another_device(changed: Fields, before: object) -> None:
    ((name, after),) = changed.items()
    assert differing(two_nodes(), with_device(1, 0, **changed)) == [(f"device.{name}", before, after, (2,))]


@pytest.mark.parametrize(
    ("field", "after"),
    [("threads", "1"), ("driver", "570.0"), ("python", "3.12.1"), ("how", "device nodes"), ("numaNodes", 1)],
)
def test_what_holds_for_every_process_is_one_difference(field: str, after: object) -> None:
    changed = [{**fields, field: after} for fields in two_nodes()]
    assert differing(two_nodes(), changed) == [(field, two_nodes()[0][field], after, (0, 1, 2, 3))]


def test_a_difference_of_one_node_is_that_nodes() -> None:
    first, second = two_nodes()
    found = compare(read(first, second), read(first, {**second, "driver": "570.0"}))
    ((field, nodes),) = [(each.field, each.nodes) for each in found.differences]
    assert (field, nodes) == ("driver", (("first-worker-0",), ("first-worker-0",)))


def test_libraries_and_masks_come_and_go() -> None:
    before = two_nodes(libraries={"torch": "2.5.0", "triton": "3.1"}, mask={"CUDA_VISIBLE_DEVICES": "0,1"})
    after = two_nodes(libraries={"torch": "2.6.0", "accelerate": "1.0"}, mask={})
    assert [each[:3] for each in differing(before, after)] == [
        ("mask.CUDA_VISIBLE_DEVICES", "0,1", None),
        ("libraries.accelerate", None, "1.0"),
        ("libraries.torch", "2.5.0", "2.6.0"),
        ("libraries.triton", "3.1", None),
    ]


def test_an_older_receipt_is_compared_as_far_as_it_says_something() -> None:
    older = two_nodes(threads="2")
    for fields in older:
        del fields["libraries"]
    newer = two_nodes(notChecked=["product"])
    for fields in newer:
        for rank in fields["ranks"]:
            rank["devices"] = [{**each, "memory": 2**36} for each in rank["devices"]]
    for a, b in ((older, newer), (newer, older)):
        found = compare(read(*a), read(*b))
        assert [each.field for each in found.differences] == ["threads"]
        assert set(found.unknown) == {"libraries", "notChecked", "device.memory"}


def test_the_job_itself() -> None:
    grown = [*two_nodes(jobFile="bb"), receipt("first-worker-1", 6, 7, rank="2", jobFile="bb")]
    assert differing(two_nodes(), grown) == [("jobFile", "aa", "bb", ()), ("nodes", 2, 3, ()), ("processes", 4, 6, ())]
    assert differing(two_nodes(), [*two_nodes(), two_nodes()[0]]) == [("starts", 1, 2, ())]


def test_fewer_devices_of_a_process_are_a_number_not_a_list_of_losses() -> None:
    before, after = two_nodes(), two_nodes()
    before[0]["ranks"][0]["devices"].append(device(6))
    assert [each[:3] for each in differing(before, after)] == [("devices", 2, 1)]


def test_node_and_process_receipts_are_compared_with_each_other() -> None:
    """The same job by torchrun and by mpirun: ranks, not lines, are what is compared."""
    single = [own("first-worker-0", rank, local, number) for rank, local, number in ((0, 0, 3), (1, 1, 1))]
    found = {each[0] for each in differing([receipt("first-master-0", 3, 1, rank="0")], single)}
    assert found == {"mask.CUDA_VISIBLE_DEVICES"}


def test_without_ranks_the_place_counts() -> None:
    nodes = [receipt(f"{job}-worker-0", 1) for job in "ab"]
    assert differing(nodes[:1], nodes[1:]) == []


ORDER = ("device.uuid", "mask.CUDA_VISIBLE_DEVICES", "threads", "driver", "libraries.torch", "numaNodes", "python")


def test_the_list_has_one_order() -> None:
    changed = with_device(0, 0, uuid="GPU-x")
    for fields in changed:
        fields.update(mask={**fields["mask"], "CUDA_VISIBLE_DEVICES": "GPU-x"}, threads="1", driver="1", numaNodes=1)
        fields.update(python="3.9.1", libraries={"torch": "1"})
    found = dict.fromkeys(each[0] for each in differing(two_nodes(), changed))
    assert tuple(found) == ORDER


STARTS = some.lists(
    some.builds(
        lambda number, rank, mode, threads: receipt(
            f"j-worker-{number}", number, rank=rank, mode=mode, threads=threads
        ),
        some.integers(0, 3),
        some.sampled_from([None, "0", "1", "7", "x"]),
        some.sampled_from(["node", "rank"]),
        some.sampled_from(["1", "2"]),
    ),
    min_size=1,
    max_size=5,
)


@given(STARTS, STARTS)
def test_laws(a: list[Fields], b: list[Fields]) -> None:
    """The same is equal; the other way round, the same fields are different."""
    assert compare(read(*a), read(*a)).differences == ()
    there, back = compare(read(*a), read(*b)), compare(read(*b), read(*a))
    assert sides(there) == sorted((field, after, before, ranks) for field, before, after, ranks in sides(back))


def sides(found: Compared) -> list[tuple[str, str, str, tuple[int, ...]]]:
    return sorted((each.field, repr(each.a), repr(each.b), each.ranks) for each in found.differences)

"""Tests the warnings about a job that does not fit the cluster's nodes."""

from __future__ import annotations

import pytest

from k8sel import api
from k8sel.cluster import capacity
from k8sel.planning.plan import Devices


def devices(count: int, **accelerator: object) -> Devices:
    text = (
        "{apiVersion: k8sel.dev/v1alpha1, kind: AcceleratedJob, metadata: {name: a}, spec: {image: a, command: [a],"
        f" launcher: torchrun, accelerator: {{type: {accelerator.get('type', 'cuda')}, count: {count}}}}}}}"
    )
    (job,) = api.load(text.encode(), "job.yaml")
    return api.plan(job).devices


def said(count: int, sizes: list[int] | None, nodes: int = 1) -> str:
    return " ".join(str(problem) for problem in capacity.warnings(devices(count), nodes, sizes))


@pytest.mark.parametrize(("count", "sizes"), [(4, None), (8, [8]), (8, [4, 8]), (4, [4, 8])])
def test_nothing_is_said_where_a_node_fits_or_nothing_is_known(count: int, sizes: list[int] | None) -> None:
    assert said(count, sizes) == ""


def test_a_job_without_devices_is_compared_with_nothing() -> None:
    assert capacity.warnings(devices(0, type="cpu"), 1, []) == ()


def test_no_node_has_any() -> None:
    assert said(2, []) == (
        "spec.accelerator.count: warning: no node of this cluster has nvidia.com/gpu, so the pods would stay Pending. "
        "Hint: install the device plugin for type cuda, or set `resource` to the name that the cluster uses"
    )


def test_no_node_has_as_many() -> None:
    assert said(8, [2, 4]) == (
        "spec.accelerator.count: warning: no node has 8 nvidia.com/gpu, so the pods would stay Pending: the largest "
        "has 4. Hint: set count: 4 and more nodes"
    )


@pytest.mark.parametrize(("nodes", "fits"), [(2, True), (3, True), (4, False)])
def test_the_nodes_together(nodes: int, fits: bool) -> None:
    text = (
        "spec.nodes: warning: the cluster has room for 3 of 4 nodes with 4 nvidia.com/gpu, so pods would stay Pending. "
        "Hint: set nodes: 3, unless the cluster adds nodes itself"
    )
    assert said(4, [2, 4, 8], nodes) == ("" if fits else text)


@pytest.mark.parametrize(("sizes", "shown"), [([8, 8], "8"), ([2, 4, 8], "4 to 8")])
def test_nodes_have_more(sizes: list[int], shown: str) -> None:
    assert said(3, sizes) == (
        f"spec.accelerator.count: warning: other pods may share the node: the job requests 3 of its "
        f"{shown} nvidia.com/gpu. Hint: request all of them, or accept any of them: the device plugin chooses"
    )

"""The part of a node's devices that a process sees, where a part has more than one device."""

from __future__ import annotations

import pytest

from k8sel.entrypoint import masks, tables
from k8sel.entrypoint.checks import Case, devices
from k8sel.entrypoint.protocol import Expectation


def test_a_process_of_two_devices_has_its_own_two() -> None:
    assert masks.shares((5, 4, 1, 0), 2, "process") == [(5, 4), (1, 0)]
    assert masks.shares((5, 4, 1, 0), 2, "node") == [(5, 4, 1, 0)]


@pytest.mark.parametrize(("positions", "refused"), [((1, 0, 2, 3), True), ((0, 1, 3, 2), True), ((2, 3, 0, 1), False)])
def test_each_process_needs_an_order_that_its_mask_can_have(positions: tuple[int, ...], refused: bool) -> None:
    wanted = Expectation("xpu", positions, processes_per_node=2, isolation="process")
    assert bool(devices.order(Case(wanted, {}, row=tables.accelerators()["xpu"])).problems) == refused

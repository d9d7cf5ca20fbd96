"""The part of a node's devices that a process sees, where a part has more than one device."""

from __future__ import annotations

from k8sel.entrypoint import masks


def test_a_process_of_two_devices_has_its_own_two() -> None:
    assert masks.shares((5, 4, 1, 0), 2, "process") == [(5, 4), (1, 0)]
    assert masks.shares((5, 4, 1, 0), 2, "node") == [(5, 4, 1, 0)]

"""Intel GPUs of two product families in one container: the driver groups them, and PyTorch uses one group."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

import pytest
from entrypoint.machines import Box

from matrix import doors, hosts, vendors
from matrix.drivers import Driver
from matrix.hosts import DEVICES, Host

INTEGRATED, DISCRETE = "0xa780", "0xe20b"  # Raptor Lake-S; Battlemage
KINDS = (INTEGRATED, DISCRETE, DISCRETE, INTEGRATED)
MIXED = (
    "devices {} cannot be used by one process, since they are of several product families (adls, bmg), each with a "
    "Level Zero driver of its own, and PyTorch uses one driver"
)


def lay_out(box: Box, held: Collection[int]) -> None:
    hosts.xpu(box, held)
    for n in DEVICES:
        box.write(f"sys/class/drm/renderD{128 + hosts.MINORS[n]}/device/device", f"{KINDS[n]}\n")


def first_family(shown: Sequence[int]) -> list[int]:
    """The devices that PyTorch uses of those that the mask leaves: the discrete ones, if there are any.

    intel/compute-runtime shared/source/device/device.cpp, groupDevices; pytorch/pytorch#144378.
    """
    discrete = [device for device in shown if KINDS[device] == DISCRETE]
    return discrete or list(shown)


def go(door: str, monkeypatch: pytest.MonkeyPatch, image: Path, **accelerator: Any) -> doors.Seen:  # noqa: ANN401
    mixed = Host(lay_out, hosts.render_nodes())
    monkeypatch.setitem(vendors.HOSTS, "xpu", mixed)
    return doors.go(door, "xpu", accelerator, image)


@pytest.mark.parametrize("door", ["docker", "run"])
@pytest.mark.parametrize(("devices", "shown"), [([1, 2], [1, 2]), ([0, 3], [0, 3]), ([2], [2])])
def test_one_family_is_what_the_program_sees(
    door: str, devices: list[int], shown: list[int], monkeypatch: pytest.MonkeyPatch, image: Path
) -> None:
    seen = go(door, monkeypatch, image, devices=devices)
    driver: Driver = vendors.VENDORS["xpu"].driver
    assert [first_family(driver.shows(sorted(seen.held), each)) for each in seen.processes] == [shown]


@pytest.mark.parametrize(("door", "said"), [("kubernetes", [0, 1]), ("docker", [0, 1]), ("run", [0, 2])])
def test_several_families_in_one_process_are_refused(
    door: str, said: list[int], monkeypatch: pytest.MonkeyPatch, image: Path
) -> None:
    asked: dict[str, Any] = {"count": 2} if door == "kubernetes" else {"devices": [0, 2]}
    seen = go(door, monkeypatch, image, **asked)
    assert (seen.status, seen.processes) == (78, ())
    assert MIXED.format(json.dumps(said)) in seen.said


@pytest.mark.parametrize("door", ["docker", "run"])
def test_with_a_process_for_each_the_mask_comes_before_the_groups(
    door: str, monkeypatch: pytest.MonkeyPatch, image: Path
) -> None:
    """intel/compute-runtime shared/source/os_interface/device_factory.cpp: parseAffinityMask, then groupDevices."""
    seen = go(door, monkeypatch, image, devices=[2, 0], isolation="process")
    driver = vendors.VENDORS["xpu"].driver
    assert [first_family(driver.shows(sorted(seen.held), each)) for each in seen.processes] == [[2], [0]]

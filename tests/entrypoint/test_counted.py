"""Tests the positions of devices that have parts: Intel's tiles, Neuron's cores, TPU chips."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrypoint.machines import Box
from entrypoint.trees import Card, drm, neuron, tiles, vfio
from k8sel.entrypoint import discovery
from k8sel.entrypoint.machine import under

GI = 2**30
HIERARCHY = "ZE_FLAT_DEVICE_HIERARCHY"


def of(accelerator: str, *devices: int, **more: object) -> dict[str, Any]:
    return {"accelerator": accelerator, "devices": list(devices), **more}


def maxes(driver: str, *counts: int) -> Callable[[Box], None]:
    """Cards with that many tiles, minors against PCI order."""

    def lay_out(box: Box) -> None:
        for index, count in enumerate(counts):
            card = Card(128 + len(counts) - 1 - index, f"{index + 1}a", driver=driver)
            drm(box, card)
            tiles(box, card, *[64 * GI] * count)

    return lay_out


def plain(*buses: str) -> Callable[[Box], None]:
    """Cards of which the kernel does not say tiles."""
    return lambda box: drm(box, *(Card(128 + number, bus) for number, bus in enumerate(buses)))


# name: the machine, the hierarchy given, the expectation, the mask (None: refused), the hierarchy written, what is said
TILES: dict[str, tuple[Callable[[Box], None], str, dict[str, Any], str | None, str, str]] = {
    "nothing set, cards of two tiles": (
        maxes("xe", 2, 2),
        "",
        of("xpu", 1, count=2),
        "1",
        "COMPOSITE",
        "cards of 2 tiles: COMPOSITE is written, cards are counted; ZE_FLAT_DEVICE_HIERARCHY=FLAT counts tiles",
    ),
    "COMPOSITE": (maxes("i915", 2, 2), "COMPOSITE", of("xpu", 0, 1, count=2), "0,1", "COMPOSITE", "device 1 of 2"),
    "FLAT: the third is the first tile of the second card": (
        maxes("i915", 2, 2),
        "FLAT",
        of("xpu", 2),
        "2",
        "FLAT",
        "xpu device 2 of 4, 0000:2a:00.0, tile 0",
    ),
    "COMBINED counts as FLAT": (
        maxes("xe", 2, 2),
        "COMBINED",
        of("xpu", 0, 3, count=4),
        "0,3",
        "COMBINED",
        "device 3 of 4, 0000:2a:00.0, tile 1",
    ),
    "FLAT, where as many cards were asked for": (
        maxes("xe", 2, 2),
        "FLAT",
        of("xpu", 0, 1, count=2),
        None,
        "",
        "tiles are counted, since ZE_FLAT_DEVICE_HIERARCHY is FLAT: COMPOSITE counts cards",
    ),
    "FLAT, cards of one tile and of two": (
        maxes("xe", 1, 2, 1),
        "FLAT",
        of("xpu", 3, count=4),
        "3",
        "FLAT",
        "device 3 of 4, 0000:3a:00.0 (/dev/dri)",
    ),
    "FLAT, eight cards": (
        maxes("i915", *[2] * 8),
        "FLAT",
        of("xpu", *range(16), count=16),
        ",".join(map(str, range(16))),
        "FLAT",
        "device 15 of 16, 0000:8a:00.0, tile 1",
    ),
    "FLAT, and the kernel does not say tiles": (
        plain("1a", "3b"),
        "FLAT",
        of("xpu", 1, count=2),
        "1",
        "FLAT",
        "/sys has no number of tiles of renderD128, renderD129: one is assumed",
    ),
    "one tile each": (
        maxes("xe", 1, 1),
        "",
        of("xpu", 1, count=2),
        "1",
        "COMPOSITE",
        "device 1 of 2, 0000:2a:00.0 (/dev",
    ),
    "a word that is none": (
        maxes("xe", 2),
        "flat",
        of("xpu", 0, count=1),
        "0",
        "COMPOSITE",
        "ZE_FLAT_DEVICE_HIERARCHY=flat is none of COMPOSITE, FLAT, COMBINED: COMPOSITE is written, cards are counted",
    ),
}


@pytest.mark.parametrize("name", TILES)
def test_tiles(name: str, box: Box) -> None:
    lay_out, given, expect, mask, mode, said = TILES[name]
    lay_out(box)
    end = box.start(expect=expect, env={HIERARCHY: given} if given else {})
    assert said in end.err
    if mask is None:
        assert (end.status, end.out) == (78, "")
    else:
        assert (end.env["ZE_AFFINITY_MASK"], end.env[HIERARCHY]) == (mask, mode)


def test_one_tile_for_each_process(box: Box) -> None:
    maxes("xe", 2)(box)
    expect = of("xpu", 1, 0, launcher="torchrun", processesPerNode=2, isolation="process")
    launcher = {"RANK": "0", "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x", HIERARCHY: "FLAT"}
    ranks = [box.start("rank", "env", expect=expect, env={**launcher, "LOCAL_RANK": rank}).env for rank in "01"]
    assert [(env["ZE_AFFINITY_MASK"], env[HIERARCHY]) for env in ranks] == [("1", "FLAT"), ("0", "FLAT")]


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize(("mode", "memory"), [("", [128 * GI, 64 * GI]), ("FLAT", [64 * GI] * 3)])
@pytest.mark.parametrize("driver", ["xe", "i915"])
def test_memory_of_cards_is_their_tiles(driver: str, mode: str, memory: list[int], box: Box) -> None:
    maxes(driver, 2, 1)(box)
    found = discovery.find("xpu", under(str(box.root)), {HIERARCHY: mode})
    assert [device.memory for device in found.devices] == memory


@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
@pytest.mark.parametrize(("text", "memory"), [(f"{16 * GI}", 16 * GI), ("x", 0), ("-1", 0), ("9" * 99, 0)])
def test_memory_of_a_card_that_says_its_own(text: str, memory: int, box: Box) -> None:
    drm(box, Card(128, "1a"))
    box.write("sys/class/drm/renderD128/device/drm/card0/lmem_total_bytes", text)
    assert [device.memory for device in discovery.find("xpu", under(str(box.root))).devices] == [memory]


@pytest.mark.parametrize(
    "value",
    [
        *(
            "level_zero:0",
            "level_zero:1,0",
            "level_zero:gpu,1",
            "level_zero:*.*",
            "!level_zero:gpu",
            "*:*;!level_zero:1",
        ),
        *("opencl:gpu", "level_zero:cpu", "cuda:*", "level_zero", "level_zero:gpu:", ""),
    ],
)
def test_a_selector_beside_the_mask_contradicts(value: str, box: Box) -> None:
    drm(box, Card(128, "1a"), Card(129, "3b"))
    end = box.start(expect=of("xpu", 1, count=2), env={"ONEAPI_DEVICE_SELECTOR": value})
    assert end.status == 78
    assert (
        f"ONEAPI_DEVICE_SELECTOR={value} is set, and selects devices beside ZE_AFFINITY_MASK: "
        "remove it from the image or the job's env" in end.message
    )


@pytest.mark.parametrize(
    "value",
    [
        "level_zero:gpu",
        "level_zero:*",
        "*:gpu",
        "*:*",
        "LEVEL_ZERO:GPU",
        "opencl:gpu;level_zero:gpu",
    ],
)
def test_a_selector_of_a_backend_is_no_selection(value: str, box: Box) -> None:
    drm(box, Card(128, "1a"), Card(129, "3b"))
    end = box.start(expect=of("xpu", 1, count=2), env={"ONEAPI_DEVICE_SELECTOR": value})
    assert (end.env["ZE_AFFINITY_MASK"], end.env["ONEAPI_DEVICE_SELECTOR"]) == ("1", value)
    assert "ONEAPI" not in end.err


def devices(*numbers: int, **more: Any) -> Callable[[Box], None]:  # noqa: ANN401
    return lambda box: neuron(box, *numbers, **more)


ONE, TWO = {"NEURON_LOGICAL_NC_CONFIG": "1"}, {"NEURON_RT_VIRTUAL_CORE_SIZE": "2"}
# name: the machine, its variables, the expectation, the mask ("": none is written; None: refused), what is said
CORES: dict[str, tuple[Callable[[Box], None], dict[str, str], dict[str, Any], str | None, str]] = {
    "one of one": (
        devices(0),
        {},
        of("neuron", 0, count=1),
        "0-1",
        "neuron device 0 of 1, NeuronCores 0-1 (/dev/neuron<N>)",
    ),
    "one of four": (devices(0, 1, 2, 3, cores=4), {}, of("neuron", 2, count=4), "8-11", "neuron device 2 of 4"),
    "side by side": (
        devices(*range(16)),
        {},
        of("neuron", 4, 5, 6, 7, count=16),
        "8-15",
        "device 4 of 16, NeuronCores 8-9 + device 5 of 16, NeuronCores 10-11",
    ),
    "sixteen": (devices(*range(16)), {}, of("neuron", *range(16), count=16), "0-31", "device 15 of 16"),
    "a hole": (
        devices(0, 1, 2),
        {},
        of("neuron", 0, 2, count=3),
        None,
        "devices [0, 2] cannot be used by one process, since NEURON_RT_VISIBLE_CORES is one range: use neighbours",
    ),
    "descending": (
        devices(0, 1),
        {},
        of("neuron", 1, 0),
        None,
        "cannot keep that order, since NEURON_RT_VISIBLE_CORES",
    ),
    "cores in pairs": (
        devices(0, 1, cores=8),
        {},
        of("neuron", 1, count=2),
        "4-7",
        "cores are counted in pairs, the default if NEURON_LOGICAL_NC_CONFIG is not set",
    ),
    "cores in pairs, as said": (
        devices(0, 1, cores=8),
        TWO,
        of("neuron", 1, count=2),
        "4-7",
        "1 of 2, NeuronCores 4-7 (/dev",
    ),
    "every core alone": (
        devices(0, 1, cores=8),
        ONE,
        of("neuron", 1, count=2),
        "8-15",
        "1 of 2, NeuronCores 8-15 (/dev",
    ),
    "groups that do not exist": (
        devices(0, cores=8),
        {"NEURON_LOGICAL_NC_CONFIG": "3"},
        of("neuron", 0, count=1),
        "",
        "the number of cores of neuron0 is not known, and the mask counts cores",
    ),
    "one core": (devices(0, 1, cores=1), {}, of("neuron", 1, count=2), "1", "device 1 of 2, NeuronCore 1 ("),
    "core_count is root's": (devices(0, 1, root=False), {}, of("neuron", 1, count=2), "2-3", "device 1 of 2"),
    "numbers of the host": (devices(2, 3), {}, of("neuron", 1, count=2), "2-3", "device 1 of 2"),
    "not side by side": (
        devices(0, 2),
        {},
        of("neuron", 0, count=2),
        "0-1",
        "neuron0, neuron2 are not neighbours, and the runtime needs neighbours",
    ),
    "nothing says their cores, and all are used": (
        devices(0, 1, cores=0, root=False),
        {},
        of("neuron", 0, 1, count=2),
        "",
        "the number of cores of neuron0, neuron1 is not known, and the mask counts cores",
    ),
    "nothing says their cores, and some are used": (
        devices(0, 1, cores=0, root=False),
        {},
        of("neuron", 1, count=2),
        None,
        "devices [1] cannot be named in NEURON_RT_VISIBLE_CORES: no value for them is known by /dev/neuron<N>",
    ),
    "one short": (devices(0), {}, of("neuron", 0, 1, count=2), None, "2 neuron devices expected, 1 found"),
    "none": (lambda box: None, {}, of("neuron", 0), None, "0 found by /dev/neuron<N>"),
    "a mask that says the same": (
        devices(0, 1),
        {"NEURON_RT_VISIBLE_CORES": "0-3"},
        of("neuron", 0, 1, count=2),
        "0-3",
        "device 1 of 2",
    ),
    "a mask that says another thing": (
        devices(0, 1),
        {"NEURON_RT_VISIBLE_CORES": "0-1"},
        of("neuron", 0, 1, count=2),
        None,
        "NEURON_RT_VISIBLE_CORES=0-1 is set, 0-3 expected",
    ),
}


@pytest.mark.parametrize("name", CORES)
def test_cores(name: str, box: Box) -> None:
    lay_out, env, expect, mask, said = CORES[name]
    lay_out(box)
    end = box.start(expect=expect, env=env)
    assert said in end.err
    if mask is None:
        assert (end.status, end.out) == (78, "")
    else:
        assert end.env.get("NEURON_RT_VISIBLE_CORES", "") == mask


@pytest.mark.parametrize("text", ["9" * 19, "9" * 5000, "-1", "²"])
def test_a_number_of_cores_that_no_device_has(text: str, box: Box) -> None:
    neuron(box, 0, 1, cores=4)
    box.write("sys/class/neuron_device/neuron0/core_count", text)
    assert box.start(expect=of("neuron", 1)).env["NEURON_RT_VISIBLE_CORES"] == "4-7"  # its cores' folders say four


def test_a_healthy_start_has_no_note(box: Box) -> None:
    neuron(box, 0, 1)
    neuron(box, 2, cores=2, root=False)
    vfio(box, (4, "0000:00:04.0", GOOGLE), (5, "0000:00:05.0", GOOGLE))
    maxes("xe", 1, 1)(box)
    box.write("lib/libze_loader.so.1", "")
    for each in (of("neuron", 0, 1, count=3), of("tpu", 0, 1), of("xpu", 1)):
        assert "note:" not in box.start(expect=each).err


def test_cores_are_not_guessed_without_a_look(box: Box) -> None:
    neuron(box, 0, 1)
    end = box.start(expect=of("neuron", 1, check="off"))
    assert "NEURON_RT_VISIBLE_CORES" not in end.env
    assert "NEURON_RT_VISIBLE_CORES is not written" in end.err


def accel(number: int) -> Callable[[Box], None]:
    def lay_out(box: Box) -> None:
        for chip in range(number):
            box.write(f"dev/accel{chip}", "")

    return lay_out


GOOGLE = "0x1ae0"
# name: the machine, the expectation, the mask (None: refused), what is said
CHIPS: dict[str, tuple[Callable[[Box], None], dict[str, Any], str | None, str]] = {
    "one": (accel(1), of("tpu", 0, count=1), "0", "tpu device 0 of 1 (/dev/accel<N>)"),
    "four": (
        accel(4),
        of("tpu", 0, 1, 2, 3, count=4),
        "0,1,2,3",
        "tpu device 0 of 4",
    ),
    "eight groups of VFIO's": (
        lambda box: vfio(box, *((number, f"0000:00:{number:02x}.0", GOOGLE) for number in range(4, 12))),
        of("tpu", 7, count=8),
        "7",
        "tpu device 7 of 8, 0000:00:0b.0 (/dev/vfio)",
    ),
    "groups of others'": (
        lambda box: vfio(box, (3, "0000:3b:00.0", "0x10de"), (10, "0000:00:05.0", GOOGLE), (9, "x", GOOGLE)),
        of("tpu", 0, count=1),
        "0",
        "0000:00:05.0 (/dev/vfio)",
    ),
    "a folder of other accelerators": (
        lambda box: box.write("dev/accel/accel0", ""),
        of("tpu", 0),
        None,
        "0 found by /dev/accel<N>",
    ),
    "one short": (accel(1), of("tpu", 0, 1, count=2), None, "2 tpu devices expected, 1"),
    "descending": (
        accel(2),
        of("tpu", 1, 0),
        None,
        "TPU_VISIBLE_CHIPS is a set",
    ),
}


@pytest.mark.parametrize("name", CHIPS)
def test_chips(name: str, box: Box) -> None:
    lay_out, expect, mask, said = CHIPS[name]
    lay_out(box)
    end = box.start(expect=expect, env={"TPU_PROCESS_BOUNDS": "1,1,1"})
    assert said in end.err
    assert (end.status, end.env["TPU_VISIBLE_CHIPS"] if end.status == 0 else None) == (78 if mask is None else 0, mask)

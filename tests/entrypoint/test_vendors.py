"""Machines of every vendor without a library, in shapes that the matrix does not have: what is found and masked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from entrypoint.machines import Box, Gpu
from entrypoint.trees import Card, amd, bank, drm, gaudi, kfd, link
from k8sel.entrypoint import discovery
from k8sel.entrypoint.machine import under

Layout = tuple[Callable[[Box], object], dict[str, Any], str | None, str]


def of(accelerator: str, *devices: int, **more: object) -> dict[str, Any]:
    return {"accelerator": accelerator, "devices": list(devices), **more}


def numbered(name: str, *numbers: int) -> Callable[[Box], None]:
    def lay_out(box: Box) -> None:
        for number in numbers:
            box.write(f"dev/{name}{number}", "")

    return lay_out


def both(*parts: Callable[[Box], object]) -> Callable[[Box], None]:
    def lay_out(box: Box) -> None:
        for part in parts:
            part(box)

    return lay_out


def cards(*found: Card, by_path: bool = True) -> Callable[[Box], None]:
    return lambda box: drm(box, *found, by_path=by_path)


def linked(*names: str) -> Callable[[Box], None]:
    """Entries in /dev/dri/by-path that lead nowhere here."""

    def lay_out(box: Box) -> None:
        for name in names:
            link(box, name, "../renderD199")

    return lay_out


IGPU = Card(128, "0000:00:02.0", device="0x46a6")
MI300 = [(128 + 8 * card, bus) for card, bus in enumerate(("05", "26", "46", "65", "85", "a6", "c6", "e5"))]

# name: the machine, the expectation, the mask (None: refused), a part of what is said
LAYOUTS: dict[str, Layout] = {
    "xpu: one": (cards(Card(128, "3b")), of("xpu", 0, count=1), "0", "xpu device 0 of 1, 0000:3b:00.0 (/dev/dri)"),
    "xpu: four, minors in PCI order": (
        cards(*(Card(128 + n, f"{n + 1}a") for n in range(4))),
        of("xpu", 1, 3, count=4),
        "1,3",
        "0000:2a:00.0",
    ),
    "xpu: minors against PCI order": (
        cards(Card(128, "c1"), Card(129, "86"), Card(130, "1a")),
        of("xpu", 0, 2, count=3, launcher="torchrun", processesPerNode=2),
        "0,2",
        "local rank 0 -> xpu device 0 of 3, 0000:1a:00.0 (/dev/dri); local rank 1 -> xpu device 2 of 3, 0000:c1:00.0",
    ),
    "xpu: sixteen": (
        cards(*(Card(128 + n, f"{16 * n + 1:02x}", driver="xe") for n in range(16))),
        of("xpu", *range(16), count=16),
        ",".join(map(str, range(16))),
        "device 15 of 16",
    ),
    "xpu: holes in the minors, the host's other cards in /sys": (
        cards(Card(128, "1a", node=False), Card(131, "3b"), Card(133, "86", node=False), Card(140, "c1")),
        of("xpu", 0, 1, count=2),
        "0,1",
        "0000:3b:00.0",
    ),
    "xpu: one promised and not handed over": (
        cards(Card(128, "1a"), Card(129, "3b", node=False)),
        of("xpu", 0, 1, count=2),
        None,
        "2 xpu devices expected, 1 found (0000:1a:00.0) by /dev/dri: check the node's device plugin, "
        "which allocated more",
    ),
    "xpu: integrated and discrete": (
        cards(IGPU, Card(129, "3b", device="0x56c0")),
        of("xpu", 1, count=2),
        "1",
        "GPUs of several product families (0x46a6 adlp, 0x56c0 dg2): a process can use one family only",
    ),
    "xpu: integrated and discrete in one process": (
        cards(IGPU, Card(129, "3b", device="0x56c0")),
        of("xpu", 0, 1, count=2),
        None,
        "devices [0, 1] cannot be used by one process, since they are of several product families (adlp, dg2), "
        "each with a Level Zero driver of its own, and PyTorch uses one driver: "
        "set isolation: process, with one family for each",
    ),
    "xpu: two ids of one family": (
        cards(Card(128, "1a", device="0xe20b"), Card(129, "3b", device="0xe20c")),
        of("xpu", 0, 1, count=2),
        "0,1",
        "xpu device 0 of 2, 0000:1a:00.0 + device 1 of 2, 0000:3b:00.0 (/dev/dri)",
    ),
    "xpu: an id of no known family": (
        cards(Card(128, "1a", device="0xe20b"), Card(129, "3b", device="0xfff0")),
        of("xpu", 0, 1, count=2),
        "0,1",
        "the product family of PCI id 0xfff0 is not known: a process can use one family only",
    ),
    "xpu: the driver sees what by-path names": (
        both(cards(Card(128, "1a")), cards(Card(129, "3b"), by_path=False)),
        of("xpu", 0, 1, count=2),
        None,
        "2 xpu devices expected, 1 found (0000:1a:00.0) by /dev/dri\n"
        "  renderD129 is not used: the driver looks only in /dev/dri/by-path",
    ),
    "xpu: by-path without an entry for a render node": (
        both(cards(Card(128, "1a"), by_path=False), linked("pci-0000:1a:00.0-card")),
        of("xpu", 0, count=1),
        None,
        "1 xpu device expected, 0 found by /dev/dri\n"
        "  renderD128 is not used: the driver looks only in /dev/dri/by-path",
    ),
    "xpu: by-path of cards that others have": (
        both(cards(Card(128, "1a"), Card(129, "3b", node=False)), linked("pci-0000:3b:00.0-render")),
        of("xpu", 0, count=1),
        "0",
        "xpu device 0 of 1, 0000:1a:00.0 (/dev/dri)",
    ),
    "xpu: no by-path, render nodes from 128 to 191": (
        cards(Card(127, "0a"), Card(128, "3b"), Card(191, "1a"), Card(192, "2a"), by_path=False),
        of("xpu", 0, 1, count=2),
        "0,1",
        "xpu device 0 of 2, 0000:1a:00.0 + device 1 of 2, 0000:3b:00.0 (/dev/dri)",
    ),
    "xpu: beside another vendor's": (
        cards(Card(128, "1a", "0x1002"), Card(129, "3b"), Card(130, "86", "0x10de")),
        of("xpu", 0, count=1),
        "0",
        "0000:3b:00.0",
    ),
    "xpu: no /sys": (
        lambda box: box.write("dev/dri/renderD128", ""),
        of("xpu", 0),
        None,
        "0 found by /dev/dri\n  /sys has no vendor of renderD128\n"
        "  check the pod's request for devices, the node's container runtime and the node's driver",
    ),
    "xpu: none": (lambda box: None, of("xpu", 0, count=1), None, "1 xpu device expected, 0 found by /dev/dri"),
    "xpu: no PCI addresses": (
        cards(Card(128, ""), Card(129, ""), Card(130, "86"), by_path=False),
        of("xpu", 0, 2, count=3),
        "0,2",
        "/sys lacks a PCI address: devices are counted in the driver's own order",
    ),
    "xpu: WSL": (
        lambda box: box.write("dev/dxg", ""),
        of("xpu", 0),
        "0",
        "xpu devices cannot be checked: this version of k8sel cannot find them; the mask is by position",
    ),
    "xpu: descending": (
        cards(Card(128, "1a"), Card(129, "3b")),
        of("xpu", 1, 0),
        None,
        "devices [1, 0] cannot keep that order, since ZE_AFFINITY_MASK is a set: "
        "use ascending order, or isolation: process",
    ),
    "xpu: a product": (
        cards(Card(128, "1a")),
        of("xpu", 0, product=["Max_1550"]),
        "0",
        "product Max_1550 cannot be checked: /dev/dri has no product names",
    ),
    "xpu: a PCI domain of five digits": (
        cards(Card(128, "10000:01:00.0"), Card(129, "0000:f1:00.0")),
        of("xpu", 0, count=1),
        "0",
        "0000:f1:00.0",
    ),
    "xpu: a PCI domain of five digits, without by-path": (  # the driver reads the last four
        cards(Card(128, "10000:01:00.0"), Card(129, "0000:f1:00.0"), by_path=False),
        of("xpu", 0, count=2),
        "0",
        "xpu device 0 of 2, 10000:01:00.0",
    ),
    "rocm: one": (
        both(lambda box: kfd(box, (0, "0"), (128, "51140")), cards(*amd((128, "c1")))),
        of("rocm", 0, count=1),
        "0",
        "rocm device 0 of 1, 0000:c1:00.0 (KFD)",
    ),
    "rocm: eight, two CPU sockets": (
        both(
            lambda box: kfd(box, (0, "0"), (0, "0"), *((minor, f"{minor}1") for minor, _ in MI300)),
            cards(*amd(*MI300)),
        ),
        of("rocm", 7, 2, count=8),
        "7,2",
        "0000:e5:00.0",
    ),
    "rocm: HSA's order is not PCI's": (
        both(
            lambda box: kfd(box, (0, "0"), (128, "1"), (129, "2"), (130, "3")),
            cards(*amd((128, "c1"), (129, "0a"), (130, "3b"))),
        ),
        of("rocm", 2, 0, count=3, launcher="torchrun", processesPerNode=2),
        "0,1",
        "local rank 0 -> rocm device 2 of 3, 0000:c1:00.0 (KFD); local rank 1 -> rocm device 0 of 3, 0000:0a:00.0",
    ),
    "rocm: ten nodes are in the order of their numbers": (
        both(
            lambda box: kfd(box, *((0, "0") for _ in range(9)), (128, "1"), (129, "2")),
            cards(*amd((128, "0a"), (129, "3b"))),
        ),
        of("rocm", 0, count=2),
        "0",
        "0000:0a:00.0",
    ),
    "rocm: the host's others in the topology": (
        both(
            lambda box: kfd(box, (0, "0"), (128, ""), (129, "2"), (130, "3")),
            cards(Card(128, "0a", "0x1002"), Card(129, "1a", "0x1002", node=False), *amd((130, "3b"))),
        ),
        of("rocm", 0, count=1),
        "0",
        "0000:3b:00.0",
    ),
    "rocm: partitions of one GPU": (
        both(
            lambda box: kfd(box, (0, "0"), *((128 + n, f"{n + 1}") for n in range(4))),
            cards(*amd(*((128 + n, "05") for n in range(4)))),
        ),
        of("rocm", 3, 1, count=4),
        "3,1",
        "rocm device 3 of 4",
    ),
    "rocm: no PCI addresses": (
        both(lambda box: kfd(box, (0, "0"), (128, "1"), (129, "2")), cards(*amd((128, ""), (129, "3b")))),
        of("rocm", 1, 0),
        "1,0",
        "/sys lacks a PCI address: devices are counted in the driver's own order",
    ),
    "rocm: no /dev/kfd": (
        both(lambda box: kfd(box, (128, "1"), control=False), cards(*amd((128, "c1")))),
        of("rocm", 0),
        None,
        "0 found by KFD\n  /dev/kfd is not found\n"
        "  check the pod's request for devices, the node's container runtime and the node's driver",
    ),
    "rocm: beside another vendor's": (
        both(
            lambda box: kfd(box, (0, "0"), (129, "1")),
            cards(IGPU, *amd((129, "c1"))),
            lambda box: box.gpus(Gpu(0, "0000:0a:00.0")),
        ),
        of("rocm", 0, count=1),
        "0",
        "0000:c1:00.0",
    ),
    "rocm: properties cut short": (
        both(
            lambda box: kfd(box, (128, "1"), (129, "2")),
            cards(*amd((128, "c1"), (129, "c2"))),
            lambda box: box.write("sys/class/kfd/kfd/topology/nodes/1/properties", "drm_render_minor\n"),
        ),
        of("rocm", 0, 1, count=2),
        None,
        "2 rocm devices expected, 1 found (0000:c1:00.0) by KFD",
    ),
    "hpu: eight, modules against the names": (
        lambda box: gaudi(box, *((n, 7 - n) for n in range(8))),
        of("hpu", 2, 0, count=8),
        "2,0",
        "hpu device 2 of 8, 0000:05:00.0 + device 0 of 8, 0000:07:00.0 (/dev/accel)",
    ),
    "hpu: half a machine": (
        lambda box: gaudi(box, (4, 6), (5, 4), (6, 7), (7, 5), host=(0, 1, 2, 3)),
        of("hpu", 3, 0, count=4),
        "7,4",
        "0000:06:00.0",
    ),
    "hpu: a virtual machine's modules": (
        lambda box: gaudi(box, (0, 1), (1, 4), (2, 5), (3, 2)),
        of("hpu", 0, 1, 2, 3),
        "1,2,4,5",
        "",
    ),
    "hpu: two digits in a name": (lambda box: gaudi(box, (9, 9), (10, 10)), of("hpu", 1, 0), "10,9", ""),
    "hpu: a device without a module id": (
        lambda box: gaudi(box, (0, 0), (1, None)),
        of("hpu", 0, 1, count=2),
        None,
        "2 hpu devices expected, 1 found (0000:00:00.0) by /dev/accel\n"
        "  /sys has no module id of accel1\n"
        "  check the node's device plugin, which allocated more; replicas of a shared device count once",
    ),
    "hpu: none": (lambda box: None, of("hpu", 0, count=1), None, "1 hpu device expected, 0 found by /dev/accel"),
    "npu: two of eight keep the host's numbers": (
        both(numbered("davinci", 3, 11), lambda box: box.write("dev/davinci_manager", "")),
        of("npu", 0, 1, count=2),
        "0,1",
        "npu device 0 of 2 + device 1 of 2 (/dev/davinci<N>)",
    ),
    "npu: what their numbers are is said": (
        numbered("davinci", 3, 11),
        of("npu", 0),
        "0",
        "device nodes davinci<N> have the numbers 3, 11 here; the mask is assumed to count from 0",
    ),
    "npu: sixteen": (numbered("davinci", *range(16)), of("npu", 0, 15, count=16), "0,15", ""),
    "npu: descending": (numbered("davinci", 0, 1), of("npu", 1, 0), None, "ASCEND_RT_VISIBLE_DEVICES is a set"),
    "npu: one short": (
        numbered("davinci", 0),
        of("npu", 0, 1, count=2),
        None,
        "2 npu devices expected, 1 found by /dev/davinci<N>: check the node's device plugin, which allocated more",
    ),
    "mlu: four": (
        both(numbered("cambricon_dev", 0, 1, 2, 3), numbered("cambricon_ctl", 0)),
        of("mlu", 1, 3, count=4),
        "1,3",
        "mlu device 1 of 4 + device 3 of 4 (/dev/cambricon_dev<N>)",
    ),
    "mlu: none": (numbered("cambricon_ctl", 0), of("mlu", 0), None, "0 found by /dev/cambricon_dev<N>"),
}
MASKS = {
    "xpu": "ZE_AFFINITY_MASK",
    "rocm": "HIP_VISIBLE_DEVICES",
    "hpu": "HABANA_VISIBLE_MODULES",
    "npu": "ASCEND_RT_VISIBLE_DEVICES",
    "mlu": "MLU_VISIBLE_DEVICES",
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layout(name: str, box: Box) -> None:
    lay_out, expect, mask, said = LAYOUTS[name]
    lay_out(box)
    end = box.start(expect=expect)
    assert said in end.err
    if mask is None:
        assert (end.status, end.out) == (78, "")
        assert end.message.startswith("k8sel: node box: ")
    else:
        assert end.env[MASKS[expect["accelerator"]]] == mask
        assert not end.message


def test_one_mask_only_on_rocm(box: Box) -> None:
    kfd(box, (128, "1"), (129, "2"))
    drm(box, *amd((128, "c1"), (129, "c2")))
    good = box.start(expect=of("rocm", 1, 0))
    assert (good.env["HIP_VISIBLE_DEVICES"], "ROCR_VISIBLE_DEVICES" in good.env) == ("1,0", False)
    for name in ("ROCR_VISIBLE_DEVICES", "GPU_DEVICE_ORDINAL"):
        end = box.start(expect=of("rocm", 1, 0), env={name: "0,1"})
        assert end.status == 78
        assert (
            f"{name}=0,1 is set, and selects devices beside HIP_VISIBLE_DEVICES: remove it from the image"
            in end.message
        )


def test_hip_ignores_cudas_mask_beside_its_own(box: Box) -> None:
    kfd(box, (128, "1"), (129, "2"))
    drm(box, *amd((128, "c1"), (129, "c2")))
    end = box.start(expect=of("rocm", 1, 0), env={"CUDA_VISIBLE_DEVICES": "0"})
    assert end.env["HIP_VISIBLE_DEVICES"] == "1,0"
    assert "CUDA_VISIBLE_DEVICES=0 has no effect beside HIP_VISIBLE_DEVICES" in end.err


def test_modules_are_permuted_within_the_plugins_own_list(box: Box) -> None:
    gaudi(box, (0, 4), (1, 5), (2, 6), (3, 7))
    plugin = {"HABANA_VISIBLE_DEVICES": "0,1,2,3", "HABANA_VISIBLE_MODULES": "5,7,4,6"}
    assert box.start(expect=of("hpu", 2, 0, count=4), env=plugin).env["HABANA_VISIBLE_MODULES"] == "6,4"
    end = box.start(expect=of("hpu", 2, 0, count=4), env={**plugin, "HABANA_VISIBLE_MODULES": "0,1"})
    assert end.status == 78
    assert "HABANA_VISIBLE_MODULES=0,1 is set, 6,4 expected" in end.message
    assert "HLS_MODULE_ID=3 is set" in box.start(expect=of("hpu", 0), env={"HLS_MODULE_ID": "3"}).message


GROUPS, FOURS = "0,1 or 2,3 or 4,5 or 6,7", "0,1,2,3 or 4,5,6,7"


@pytest.mark.parametrize(
    ("modules", "devices", "said"),
    [
        ((0, 1, 2, 3, 4, 5, 6, 7), (0, 1, 2, 3, 4, 5, 6, 7), ""),
        ((0, 1, 2, 3, 4, 5, 6, 7), (7, 6), ""),
        ((4, 5, 6, 7), (3, 0, 1, 2), ""),
        ((5,), (0,), ""),
        ((4, 5, 6, 7), (1, 2), f"5,6 is not a group of devices that the vendor documents: use {GROUPS}"),
        ((1, 2, 4, 5), (0, 1, 2, 3), f"1,2,4,5 is not a group of devices that the vendor documents: use {FOURS}"),
        ((0, 1, 2), (0, 1, 2), "0,1,2 is not a group of devices that the vendor documents: use 2, 4 or 8 devices"),
        ((8, 9), (0, 1), f"8,9 is not a group of devices that the vendor documents: use {GROUPS}"),
    ],
)
def test_a_group_that_the_vendor_does_not_document_is_noted(
    modules: tuple[int, ...], devices: tuple[int, ...], said: str, box: Box
) -> None:
    gaudi(box, *((minor, module) for minor, module in enumerate(modules)))
    end = box.start(expect=of("hpu", *devices, count=len(modules)))

    assert end.status == 0
    assert ("vendor documents" in end.err) is bool(said)
    assert said in end.err


def test_one_module_twice_is_one_device(box: Box) -> None:
    gaudi(box, (0, 4), (1, 4))
    end = box.start(expect=of("hpu", 1, 0))
    assert (end.status, end.out) == (78, "")
    assert "4 found more than once by /dev/accel: ask for fewer devices" in end.message


def test_what_the_container_runtime_says_is_passed_on(box: Box) -> None:
    end = box.start(expect=of("hpu", 0), env={"HABANA_RUNTIME_ERROR": "no device 9"})
    assert "0 found by /dev/accel" in end.message
    assert "error of the container runtime: no device 9" in end.message


def test_without_a_look_no_module_is_known(box: Box) -> None:
    gaudi(box, (0, 4))
    end = box.start(expect=of("hpu", 0, check="off"))
    assert "HABANA_VISIBLE_MODULES" not in end.env
    assert "devices are not checked (check: off); HABANA_VISIBLE_MODULES is not written" in end.err


def test_going_on_with_fewer_modules(box: Box) -> None:
    gaudi(box, (0, 4), (1, 5))
    end = box.start(expect=of("hpu", 3, 1, count=4, check="warn"))
    assert end.env["HABANA_VISIBLE_MODULES"] == "5"


@pytest.mark.parametrize("text", ["9" * 5000, "²", "-1", "0x1", ""])
def test_a_number_that_the_kernel_would_not_write(text: str, box: Box) -> None:
    gaudi(box, (0, 0))
    box.write("sys/class/accel/accel0/device/module_id", text)
    assert "0 found by /dev/accel" in box.start(expect=of("hpu", 0)).message
    box.gpus(Gpu(0, "0000:1a:00.0"))
    box.write("sys/bus/pci/devices/0000:1a:00.0/numa_node", text)
    assert box.start(expect=of("cuda", 0)).receipt["ranks"][0]["devices"][0]["numa"] is None


FORKS = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")


def memory(kind: str, box: Box) -> list[int]:
    """Returns the known memory of each device."""
    return [device.memory for device in discovery.find(kind, under(str(box.root))).devices]


@FORKS
def test_memory_of_amd_gpus_is_their_own_banks(box: Box) -> None:
    kfd(box, (0, "0"), (128, "1"), (129, "2"), (130, "3"))
    drm(box, *amd((128, "c1"), (129, "0a"), (130, "d1")))
    bank(box, 0, 0, heap=0, size=2**38)
    bank(box, 1, 0, heap=1, size=2**37)
    bank(box, 1, 1, heap=0, size=2**38)
    bank(box, 2, 0, heap=1, size=2**28)
    bank(box, 2, 1, heap=2, size=2**33)
    assert memory("rocm", box) == [2**28 + 2**33, 2**37, 0]  # in PCI order; the third does not say


@FORKS
def test_memory_that_nvml_says_and_that_proc_does_not(nvml_box: Box) -> None:
    nvml_box.gpus(Gpu(1, "0000:70:00.0"))
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("FAKE_NVML_DEV", str(nvml_box.root / "dev"))
        assert memory("cuda", nvml_box) == [80 * 2**30] * 3
        patched.setenv("FAKE_NVML_RESULT", "9")
        assert memory("cuda", nvml_box) == [0]


def test_every_vendors_nodes_are_named_where_none_is_asked_for(box: Box) -> None:
    drm(box, Card(128, "1a"), *amd((129, "c1")))
    kfd(box, (129, "1"))
    gaudi(box, (0, 4))
    numbered("davinci", 0)(box)
    numbered("cambricon_dev", 1)(box)
    box.nodes(2)
    end = box.start(expect={"accelerator": "cpu", "devices": []})
    (line,) = [line for line in end.err.splitlines() if " note: " in line]
    (hidden,) = [note for note in line.split("; ") if "hidden from the program" in note]
    (shown,) = [note for note in line.split("; ") if "not hidden, because no variable hides them for certain" in note]
    for note, names in (
        (hidden, ("nvidia2", "dri/renderD129")),
        (shown, ("dri/renderD128", "accel/accel0", "davinci0", "cambricon_dev1")),
    ):
        assert set(note.rpartition(": ")[2].split(", ")) == {f"{box.root}/dev/{name}" for name in names}

"""Tests the reading of NVML with a library in Python: partitions (MIG), lost GPUs, old drivers."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from k8sel.entrypoint.discovery import cuda, nvml
from k8sel.entrypoint.machine import Machine


class Library:
    """Two GPUs; the second is partitioned into three places, of which the middle one is empty."""

    def __init__(self, *, lost: int | None = None) -> None:
        self.lost = lost

    def nvmlInit_v2(self) -> int:
        return 0

    def nvmlSystemGetDriverVersion(self, text: Any, size: object) -> int:  # noqa: ANN401
        text.value = b"570.1"
        return 0

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: ANN401
        count._obj.value = 2
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:  # noqa: ANN401
        handle._obj.value = index.value + 1
        return 15 if index.value == self.lost else 0

    def nvmlDeviceGetPciInfo_v3(self, handle: Any, info: Any) -> int:  # noqa: ANN401
        info._obj.busId = f"00000000:{9 - handle.value:02X}:00.0".encode()
        return 0

    def nvmlDeviceGetUUID(self, handle: Any, text: Any, size: object) -> int:  # noqa: ANN401
        text.value = (f"GPU-{handle.value}" if handle.value < 10 else f"MIG-{handle.value}").encode()
        return 0

    def nvmlDeviceGetName(self, handle: Any, text: Any, size: object) -> int:  # noqa: ANN401
        text.value = b"NVIDIA A100-SXM4-40GB" + (b" MIG 3g.20gb" if handle.value >= 10 else b"")
        return 0

    def nvmlDeviceGetMemoryInfo(self, handle: Any, sizes: Any) -> int:  # noqa: ANN401
        sizes._obj[:] = [handle.value * 2**30, 1, 2]  # total, free, used
        return 0

    def nvmlDeviceGetMigMode(self, handle: Any, now: Any, pending: Any) -> int:  # noqa: ANN401
        now._obj.value = int(handle.value == 2)
        return 0 if handle.value == 2 else 3

    def nvmlDeviceGetMaxMigDeviceCount(self, handle: Any, count: Any) -> int:  # noqa: ANN401
        count._obj.value = 3
        return 0

    def nvmlDeviceGetMigDeviceHandleByIndex(self, handle: Any, index: Any, each: Any) -> int:  # noqa: ANN401
        each._obj.value = 10 + index.value
        return 6 if index.value == 1 else 0


def look(monkeypatch: pytest.MonkeyPatch, library: Library) -> dict[str, Any]:
    monkeypatch.setattr(nvml, "_load", lambda folder: library)
    monkeypatch.setattr(nvml, "_file", lambda library: "")
    return nvml.look("")


def test_a_partitioned_gpu_is_its_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, Library())
    addresses, uuids, _, memory = zip(*found["devices"], strict=True)
    assert uuids == ("GPU-1", "MIG-10", "MIG-12")
    assert addresses == ("00000000:08:00.0", "00000000:07:00.0", "00000000:07:00.0")
    assert memory == (2**30, 10 * 2**30, 12 * 2**30)


def test_a_gpu_that_does_not_say_its_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    class Shared(Library):
        def nvmlDeviceGetMemoryInfo(self, handle: Any, sizes: Any) -> int:  # noqa: ANN401
            return 3

    assert [memory for *_, memory in look(monkeypatch, Shared())["devices"]] == [0, 0, 0]


def test_a_lost_gpu_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, Library(lost=0))
    assert len(found["devices"]) == 2
    assert found["notes"] == ["NVML GPU 0: nvmlDeviceGetHandleByIndex_v2: error 15 (GPU is lost)"]


def test_a_library_that_is_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    class Old(Library):
        nvmlInit_v2 = property()

    with pytest.raises(nvml.NvmlError, match=r"nvmlInit_v2: error 13 \(function not found\)"):
        look(monkeypatch, Old())


def test_the_cuda_that_the_driver_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    class Installed(Library):
        def nvmlSystemGetCudaDriverVersion_v2(self, number: Any) -> int:  # noqa: ANN401
            number._obj.value = 13010
            return 0

    assert look(monkeypatch, Installed())["runtime"] == "13.1"
    assert look(monkeypatch, Library())["runtime"] == ""


def test_the_layout_of_pci_info() -> None:
    assert (ctypes.sizeof(nvml._PciInfo), nvml._PciInfo.busId.offset) == (68, 36)


class Hostile(Library):
    """Says whatever it is told to say."""

    def __init__(self, pci: bytes = b"00000000:3B:00.0", name: bytes = b"GPU", count: int = 2) -> None:
        super().__init__()
        self.pci, self.name, self.count = pci, name, count

    def nvmlDeviceGetCount_v2(self, count: Any) -> int:  # noqa: ANN401
        count._obj.value = self.count
        return 0

    def nvmlDeviceGetHandleByIndex_v2(self, index: Any, handle: Any) -> int:  # noqa: ANN401
        handle._obj.value = index.value + 20
        return 0 if index.value < 128 else 2

    def nvmlDeviceGetPciInfo_v3(self, handle: Any, info: Any) -> int:  # noqa: ANN401
        info._obj.busId = self.pci
        return 0

    def nvmlDeviceGetName(self, handle: Any, text: Any, size: object) -> int:  # noqa: ANN401
        text.value = self.name
        return 0


def test_a_name_that_is_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(monkeypatch, Hostile(name=b"\xff\xfe GPU"))["devices"][0][2] == "\ufffd\ufffd GPU"


@pytest.mark.parametrize("pci", [b"", b"\xff\xff", b"nonsense", b"00:00", b"x:y:z.w", b"0:0:0:0:0"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_an_address_that_is_none_is_no_answer(pci: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nvml, "_load", lambda folder: Hostile(pci))
    monkeypatch.setattr(nvml, "_file", lambda library: "")
    with pytest.raises(cuda.Unavailable, match="is no PCI address"):
        cuda.by_nvml(Machine())


def test_a_count_that_changes_between_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    found = look(monkeypatch, Hostile(count=130))
    assert len(found["devices"]) == 128
    assert len(found["notes"]) == 2


def test_no_device_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    assert look(monkeypatch, Hostile(count=0))["devices"] == []


def test_a_driver_that_does_not_say_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    class Silent(Library):
        def nvmlSystemGetDriverVersion(self, text: Any, size: object) -> int:  # noqa: ANN401
            return 999

    found = look(monkeypatch, Silent())
    assert (len(found["devices"]), found["driver"]) == (3, "")

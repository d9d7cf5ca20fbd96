"""PyTorch counts devices by the mask before it starts the driver: each word of a mask has to be one that it counts."""

from __future__ import annotations

import re

import pytest

from matrix import cells

# pytorch/pytorch@d0f2af8b66 torch/cuda/__init__.py, _parse_visible_devices and _transform_uuid_to_ordinals: UUIDs of
# NVML or numbers; of AMD's GPUs numbers alone, because amdsmi's serials are not HIP's UUIDs (decision 25).
# torch/xpu/__init__.py, _parse_visible_devices: numbers alone.
COUNTED = {
    "cuda": ("CUDA_VISIBLE_DEVICES", r"(GPU-[^,]+)(,GPU-[^,]+)*|[0-9]+(,[0-9]+)*"),
    "rocm": ("HIP_VISIBLE_DEVICES", r"[0-9]+(,[0-9]+)*"),
    "xpu": ("ZE_AFFINITY_MASK", r"[0-9]+(,[0-9]+)*"),
}


@pytest.mark.parametrize("row", COUNTED)
def test_pytorch_counts_the_devices_that_the_program_gets(row: str) -> None:
    mask, form = COUNTED[row]
    written = [process for name, cell in cells.recorded().items() if _names_devices(row, name) for process in _of(cell)]
    assert written
    for line, shown in written:
        words = dict(word.split("=", 1) for word in line.split())[mask]
        assert re.fullmatch(form, words), line
        assert len({*words.split(",")}) == len(shown)  # a word that is there twice would count as none


def _names_devices(row: str, name: str) -> bool:
    kind, *_, selection = name.split()
    return kind == row and selection != "none"


def _of(cell: cells.Cell) -> list[tuple[str, list[int]]]:
    return list(zip(cell.get("written", ()), cell.get("shown", ()), strict=True))

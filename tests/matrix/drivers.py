"""Which devices a program gets from the variables that it finds, as each vendor's own driver reads them.

Written from the vendors' sources alone: nothing here asks k8sel what it meant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from entrypoint.machines import uuid

from matrix.hosts import HSA, MODULES


def _counted(held: Sequence[int]) -> dict[str, int]:
    return {str(number): device for number, device in enumerate(held)}


def _uuids_and_counted(held: Sequence[int]) -> dict[str, int]:
    return {**_counted(held), **{uuid(device): device for device in held}}


def _as_rocm_lists_them(held: Sequence[int]) -> dict[str, int]:
    return _counted([device for device in HSA if device in held])


def _modules(held: Sequence[int]) -> dict[str, int]:
    return {str(MODULES[device]): device for device in held}


def _pairs_of_cores(held: Sequence[int]) -> dict[str, int]:
    return {f"{2 * number}-{2 * number + 1}": device for number, device in enumerate(held)}


def _words(mask: str) -> list[str]:
    return mask.split(",")


def _pairs(mask: str) -> list[str]:
    """``0-3`` as ``0-1`` and ``2-3``; a core alone is half a device, and none."""
    first, _, last = mask.partition("-")
    return [f"{core}-{core + 1}" for core in range(int(first), int(last or first), 2)]


@dataclass(frozen=True)
class Driver:
    """How one vendor's driver reads its mask."""

    mask: str
    names: Callable[[Sequence[int]], dict[str, int]] = _counted  # what the mask calls each device of the container
    words: Callable[[str], list[str]] = _words
    empty_is_all: bool = True
    ordered: bool = True  # whether the program gets them in the mask's order
    counts: Mapping[str, str] = field(default_factory=dict)  # without this, numbers may be anything

    def shows(self, held: Sequence[int], env: Mapping[str, str]) -> list[int]:
        """Those of ``held`` that the program gets, its device 0 first."""
        if any(env.get(name) != value for name, value in self.counts.items()):
            held = held[::-1]
        names, mask = self.names(held), env.get(self.mask)
        if mask is None or (mask == "" and self.empty_is_all):
            return list(names.values())
        shown = [names[word] for word in takewhile(names.__contains__, self.words(mask))]  # the first wrong one ends it
        return shown if self.ordered else [device for device in names.values() if device in shown]


DRIVERS = {
    # docs.nvidia.com, CUDA programming guide, "CUDA Environment Variables"
    "cuda": Driver(
        "CUDA_VISIBLE_DEVICES", _uuids_and_counted, empty_is_all=False, counts={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    ),
    # intel/compute-runtime shared/source/execution_environment/execution_environment.cpp, parseAffinityMask
    "xpu": Driver("ZE_AFFINITY_MASK", ordered=False, counts={"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}),
    # docs.habana.ai v1.10, "Multiple Workloads on a Single Node"; huggingface/optimum-habana#1089
    "hpu": Driver("HABANA_VISIBLE_MODULES", _modules),
    # ROCm/clr rocclr/device/rocm/rocdevice.cpp: -1 is no device's number, and an empty mask none
    "rocm": Driver("HIP_VISIBLE_DEVICES", _as_rocm_lists_them),
    # hiascend.com, environment variables: ASCEND_RT_VISIBLE_DEVICES takes ascending numbers
    "npu": Driver("ASCEND_RT_VISIBLE_DEVICES", ordered=False),
    "mps": Driver(mask=""),  # has none
    # aws-neuron/aws-neuron-driver neuron_cdev.c: one range of cores, from 0 for the container's first device
    "neuron": Driver("NEURON_RT_VISIBLE_CORES", _pairs_of_cores, _pairs, ordered=False),
    # Of these two no source says that the mask orders.
    "tpu": Driver("TPU_VISIBLE_CHIPS", ordered=False),
    "mlu": Driver("MLU_VISIBLE_DEVICES", ordered=False),
}


def shown(row: str, held: Collection[int], env: Mapping[str, str]) -> list[int]:
    """The devices that a program gets, of those whose nodes are there."""
    return DRIVERS[row].shows(sorted(held), env) if row in DRIVERS else []

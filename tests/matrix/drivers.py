"""Models of the vendors' drivers: the devices that a program gets from the variables of its environment."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from entrypoint.machines import uuid

from matrix.hosts import HSA, MODULES


def counted(held: Sequence[int]) -> dict[str, int]:
    return {str(number): device for number, device in enumerate(held)}


def uuids_and_counted(held: Sequence[int]) -> dict[str, int]:
    return {**counted(held), **{uuid(device): device for device in held}}


def as_rocm_lists_them(held: Sequence[int]) -> dict[str, int]:
    return counted([device for device in HSA if device in held])


def modules(held: Sequence[int]) -> dict[str, int]:
    return {str(MODULES[device]): device for device in held}


def pairs_of_cores(held: Sequence[int]) -> dict[str, int]:
    return {f"{2 * number}-{2 * number + 1}": device for number, device in enumerate(held)}


def words(mask: str) -> list[str]:
    return mask.split(",")


def pairs(mask: str) -> list[str]:
    """``0-3`` as ``0-1`` and ``2-3``; a core alone is half a device, and none."""
    first, _, last = mask.partition("-")
    return [f"{core}-{core + 1}" for core in range(int(first), int(last or first), 2)]


def core_by_rank(held: Sequence[int], env: Mapping[str, str]) -> list[int]:
    """The device whose core a process of torchrun gets from PyTorch's plugin; each device has two cores.

    pytorch/xla torch_xla/_internal/neuron_utils.py, remap_visible_cores (2.5 to 2.9): the mask's r-th core, of as many
    as there are processes; without a mask, and in other versions with one too, core r. Both have to be the same core.
    """
    rank, number = int(env["LOCAL_RANK"]), int(env["LOCAL_WORLD_SIZE"])
    mask = env.get("NEURON_RT_VISIBLE_CORES", f"0-{number - 1}")
    cores = [core for pair in pairs(mask) for core in pair.split("-")]
    assert len(cores) == number, "torch_xla: LOCAL_WORLD_SIZE is not equal to count"
    assert int(cores[rank]) == rank, "the plugin's versions would choose different cores"
    return [held[rank // 2]]


@dataclass(frozen=True)
class Driver:
    """A model of one vendor's driver, which reads the mask."""

    mask: str
    names: Callable[[Sequence[int]], dict[str, int]] = counted  # what the mask calls each device of the container
    words: Callable[[str], list[str]] = words
    empty_is_all: bool = True
    ordered: bool = True  # whether the program gets them in the mask's order
    ascending: bool = False  # whether a mask in another order shows no device
    counts: Mapping[str, str] = field(default_factory=dict)  # without this, numbers may be anything

    def shows(self, held: Sequence[int], env: Mapping[str, str]) -> list[int]:
        """Those of ``held`` that the program gets, its device 0 first."""
        if any(env.get(name) != value for name, value in self.counts.items()):
            held = held[::-1]
        names, mask = self.names(held), env.get(self.mask)
        if mask is None or (mask == "" and self.empty_is_all):
            return list(names.values())
        shown = [names[word] for word in takewhile(names.__contains__, self.words(mask))]  # the first wrong one ends it
        if self.ascending and shown != sorted(shown):
            return []
        return shown if self.ordered else [device for device in names.values() if device in shown]

"""Tests processes that share devices: a Neuron process takes a core of a device, and one process opens a TPU chip."""

from __future__ import annotations

import json
from typing import Any

import pytest

from entrypoint.machines import Box, End
from entrypoint.test_counted import GOOGLE, ONE, of
from entrypoint.trees import neuron, vfio

MASK = "NEURON_RT_VISIBLE_CORES"


def torchrun(*devices: int, processes: int, **more: object) -> dict[str, Any]:
    return of("neuron", *devices, launcher="torchrun", processesPerNode=processes, **more)


def ranks(end: End) -> list[dict[str, Any]]:
    (line,) = (line for line in end.out.splitlines() + end.err.splitlines() if line.startswith("k8sel-receipt: "))
    found: list[dict[str, Any]] = json.loads(line.removeprefix("k8sel-receipt: "))["ranks"]
    return found


def test_a_process_for_each_core_of_sixteen_devices(box: Box) -> None:
    """Trn1: 32 processes. PyTorch's plugin gives local rank r core r; so it does where the mask is not written."""
    neuron(box, *range(16))
    end = box.start(expect=torchrun(*range(16), processes=32, count=16))
    assert (end.status, end.env.get(MASK)) == (0, None)
    assert "local rank 1 -> neuron device 0 of 16, NeuronCore 1 (/dev/neuron<N>)" in end.err
    assert "local rank 31 -> neuron device 15 of 16, NeuronCore 31 (/dev/neuron<N>)" in end.err
    assert [(rank["positions"], rank["devices"][0]["part"]) for rank in ranks(end)][2:4] == [
        ([1], "NeuronCore 2"),
        ([1], "NeuronCore 3"),
    ]


@pytest.mark.parametrize(("variables", "processes"), [({}, 8), (ONE, 16)])
def test_logical_cores_are_what_counts(variables: dict[str, str], processes: int, box: Box) -> None:
    """Trn2: eight cores, which are four pairs unless NEURON_LOGICAL_NC_CONFIG says one."""
    neuron(box, 0, 1, cores=8)
    end = box.start(expect=torchrun(0, 1, processes=processes, count=2), env=variables)
    assert end.status == 0
    assert f"neuron device 1 of 2, NeuronCore {processes - 1} (" in end.err
    assert box.start(expect=torchrun(0, 1, processes=24 - processes), env=variables).status == 78


REFUSED: dict[str, tuple[dict[str, Any], dict[str, str], str]] = {
    "a process for each device": (
        torchrun(0, 1, processes=2, count=2),
        {},
        "2 processes for 4 NeuronCores, 2 of each device: PyTorch's plugin gives each process one: "
        "set processesPerNode: 4",
    ),
    "one process": (
        torchrun(0, processes=1),
        {},
        "1 process for 2 NeuronCores, 2 of each device: PyTorch's plugin gives each process one: "
        "set processesPerNode: 2, or launcher: python for one process with all of them",
    ),
    "not the first devices": (
        torchrun(1, processes=2),
        {},
        "devices [1] are not the first of the container, whose NeuronCores PyTorch's plugin gives the processes: "
        "use positions 0 to 0",
    ),
    "a mask that says another thing": (
        torchrun(0, 1, processes=4),
        {MASK: "0-1"},
        f"{MASK}=0-1 is set, 0-3 expected",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_processes_that_do_not_fit_the_cores(name: str, box: Box) -> None:
    expect, variables, said = REFUSED[name]
    neuron(box, 0, 1)
    end = box.start(expect=expect, env=variables)
    assert (end.status, end.out) == (78, "")
    assert said in end.message


def test_with_a_warning_alone_the_core_that_the_plugin_gives_is_named(box: Box) -> None:
    neuron(box, 0, 1)
    end = box.start(expect=torchrun(0, 1, processes=2, check="warn"))
    assert end.status == 0
    assert "local rank 1 -> neuron device 0 of 2, NeuronCore 1 (" in end.err


def test_one_process_for_all_cores_under_spmd(box: Box) -> None:
    """torch_xla leaves the mask alone there: torch_xla/_internal/neuron.py, configure_pjrt_environment."""
    neuron(box, 0, 1)
    end = box.start(expect=torchrun(0, processes=1), env={"XLA_USE_SPMD": "1"})
    assert (end.status, end.env[MASK]) == (0, "0-1")
    assert "neuron device 0 of 2, NeuronCores 0-1 (" in end.err


def test_processes_are_not_compared_with_cores_that_nobody_counted(box: Box) -> None:
    neuron(box, 0, 1, cores=0, root=False)
    end = box.start(expect=torchrun(0, 1, processes=4))
    assert end.status == 0
    assert "the number of cores of neuron0, neuron1 is not known" in end.err
    assert "local rank 3 -> neuron device 1 of 2, NeuronCore 3 (" in end.err


def test_a_start_by_hand_takes_the_number_of_processes_from_the_command(box: Box) -> None:
    neuron(box, 0, 1)
    words = ("torchrun", "--nproc-per-node", "4", "train.py")
    plain = {"K8SEL_ACCELERATOR": "neuron", "K8SEL_COUNT": "2"}
    box.write("bin/torchrun", "#!/bin/sh\nenv\n")
    (box.root / "bin/torchrun").chmod(0o755)
    end = box.start(*words, env={**plain, "PATH": f"{box.root}/bin:/usr/bin:/bin"})
    assert end.status == 0, end.err
    assert "local rank 3 -> neuron device 1 of 2, NeuronCore 3" in end.err


def test_several_processes_that_each_reserve_all(box: Box) -> None:
    """Where no plugin shares the cores out, each process would reserve them all; a chip opens once too."""
    neuron(box, 0, 1)
    vfio(box, *((number, f"0000:00:{number:02x}.0", GOOGLE) for number in (4, 5)))
    for expect in (
        of("neuron", 0, 1, launcher="mpirun", processesPerNode=2),
        of("tpu", 0, 1, launcher="torchrun", processesPerNode=2),
    ):
        end = box.start(expect=expect)
        assert end.status == 78
        assert "each of 2 processes would open all of devices [0, 1], which only one process can open: " in end.message
        assert "set isolation: process" in end.message


@pytest.mark.parametrize(("rank", "mask"), [("0", "4-5"), ("1", "0-1")])
def test_a_process_of_mpirun_has_the_cores_of_its_own_devices(rank: str, mask: str, box: Box) -> None:
    """No agent, so PyTorch's plugin leaves each process's mask alone."""
    neuron(box, 0, 1, 2)
    expect = of("neuron", 2, 0, launcher="mpirun", processesPerNode=2, isolation="process")
    variables = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2"}
    end = box.start("rank", "--", "env", expect=expect, env=variables)
    assert (end.status, end.env[MASK]) == (0, mask)
    assert f"NeuronCores {mask} (" in end.err


def test_a_number_of_cores_beside_the_mask_is_a_note(box: Box) -> None:
    """neuron-runtime/guides/configuration-guide.rst: the mask takes precedence."""
    neuron(box, 0, 1)
    end = box.start(expect=of("neuron", 0, count=2), env={"NEURON_RT_NUM_CORES": "2"})
    assert (end.status, end.env[MASK]) == (0, "0-1")
    assert f"note: NEURON_RT_NUM_CORES=2 has no effect beside {MASK}" in end.err


BOUNDS = {"TPU_CHIPS_PER_PROCESS_BOUNDS": "1,2,1", "TPU_PROCESS_BOUNDS": "1,1,1"}
CHIPS: dict[str, tuple[dict[str, Any], dict[str, str], tuple[str, str] | None, str]] = {
    "all": (of("tpu", 0, 1, 2, 3), {}, ("", ""), "device 3 of 4, 0000:00:07.0"),
    "one of four": (of("tpu", 2), {}, ("1,1,1", "1,1,1"), "tpu device 2 of 4"),
    "one of four, by the user": (of("tpu", 2), {"TPU_PROCESS_BOUNDS": "1,1,1"}, ("1,1,1", "1,1,1"), "device 2 of 4"),
    "two of four, with bounds": (of("tpu", 0, 1), BOUNDS, ("1,2,1", "1,1,1"), "device 1 of 4"),
    "two of four, without bounds": (
        of("tpu", 0, 1),
        {},
        None,
        "a process gets 2 of 4 tpu devices, and TPU_CHIPS_PER_PROCESS_BOUNDS and TPU_PROCESS_BOUNDS are not set: "
        "set them in the job's env, or use 1 or all 4 devices for a process",
    ),
    "two of four, with bounds of four": (
        of("tpu", 0, 1),
        {**BOUNDS, "TPU_CHIPS_PER_PROCESS_BOUNDS": "2,2,1"},
        None,
        "TPU_CHIPS_PER_PROCESS_BOUNDS=2,2,1 is set, and a process gets 2 of 4 tpu devices",
    ),
    "bounds that are no numbers": (
        of("tpu", 0, 1),
        {**BOUNDS, "TPU_CHIPS_PER_PROCESS_BOUNDS": "²,1,x"},
        None,
        "TPU_CHIPS_PER_PROCESS_BOUNDS=²,1,x is set, and a process gets 2 of 4 tpu devices",
    ),
}


def test_two_chips_for_each_of_two_processes_need_their_bounds(box: Box) -> None:
    vfio(box, *((number, f"0000:00:{number:02x}.0", GOOGLE) for number in range(4, 8)))
    expect = of("tpu", 0, 1, 2, 3, launcher="mpirun", processesPerNode=2, isolation="process")
    end = box.start(expect=expect)
    assert (end.status, "a process gets 2 of 4 tpu devices, and TPU_CHIPS_PER" in end.message) == (78, True)
    assert box.start(expect=expect, env={**BOUNDS, "TPU_PROCESS_BOUNDS": "2,1,1"}).status == 0


@pytest.mark.parametrize("name", CHIPS)
def test_some_chips_of_a_host_need_their_bounds(name: str, box: Box) -> None:
    expect, variables, bounds, said = CHIPS[name]
    vfio(box, *((number, f"0000:00:{number:02x}.0", GOOGLE) for number in range(4, 8)))
    end = box.start(expect=expect, env=variables)
    assert said in end.err
    if bounds is None:
        assert end.status == 78
    else:
        assert tuple(end.env.get(each, "") for each in BOUNDS) == bounds


def test_a_chip_for_each_of_four_processes(box: Box) -> None:
    """torch_xla sets the bounds itself then (torch_xla/_internal/tpu.py, configure_topology); other programs do not."""
    vfio(box, *((number, f"0000:00:{number:02x}.0", GOOGLE) for number in range(4, 8)))
    expect = of("tpu", 0, 1, 2, 3, launcher="torchrun", processesPerNode=4, isolation="process")
    end = box.start(expect=expect)
    assert end.status == 0
    assert "note: TPU_CHIPS_PER_PROCESS_BOUNDS and TPU_PROCESS_BOUNDS are not set" in end.err
    rank = {"RANK": "2", "LOCAL_RANK": "2", "WORLD_SIZE": "4", "LOCAL_WORLD_SIZE": "4"}
    end = box.start("rank", "--", "env", expect=expect, env=rank)
    assert (end.status, end.env["TPU_VISIBLE_CHIPS"]) == (0, "2")


def test_chips_of_two_cores(box: Box) -> None:
    vfio(box, (4, "0000:00:04.0", GOOGLE))
    box.write("sys/bus/pci/devices/0000:00:04.0/device", "0x0076\n")
    end = box.start(expect=of("tpu", 0))
    assert "note: each TPU7x chip has two cores, which a framework shows as two devices" in end.err

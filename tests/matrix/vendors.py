"""Each vendor of the table: its machine, how its driver reads its mask, and where its devices cannot be chosen.

Written by hand from the vendors' sources alone: nothing here asks k8sel. A new vendor is one entry.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from entrypoint import trees

from matrix import hosts
from matrix.drivers import (
    Driver,
    as_rocm_lists_them,
    core_by_rank,
    modules,
    pairs,
    pairs_of_cores,
    uuids_and_counted,
)
from matrix.hosts import DEVICES, MINORS, MODULES, Host


@dataclass(frozen=True)
class Vendor:
    """One vendor; the texts are the whole reason why k8sel refuses a job, and empty where it does not."""

    host: Host
    driver: Driver
    not_in_docker: str = ""  # chosen devices do not enter a container of Docker's
    not_by_the_host: str = ""  # `allocation: host` cannot choose
    not_by_process: str = ""  # `isolation: process` has nothing to do
    gap: str = ""  # devices 0 and 2 leave one in the mask of a single process
    ranks: int = 0  # processes of a device, under torchrun with one mask for all; 0: each may use any device
    by_rank: Callable[[Sequence[int], Mapping[str, str]], list[int]] | None = None  # what each of these gets
    not_by_rank: str = ""  # why they cannot have one mask
    not_others: str = ""  # why they cannot have devices 0 and 2
    part: str = ""  # why the entrypoint stops a process with some of a container's devices


VENDORS = {
    # docs.nvidia.com, CUDA programming guide, "CUDA Environment Variables"
    "cuda": Vendor(
        Host(hosts.cuda, tuple(f"/dev/nvidia{minor}" for minor in MINORS)),
        Driver(
            "CUDA_VISIBLE_DEVICES", uuids_and_counted, empty_is_all=False, counts={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
        ),
    ),
    # intel/compute-runtime shared/source/execution_environment/execution_environment.cpp, parseAffinityMask
    "xpu": Vendor(
        Host(hosts.xpu, hosts.render_nodes()),
        Driver("ZE_AFFINITY_MASK", ordered=False, counts={"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}),
        not_by_the_host="type xpu has no variable that exposes chosen host devices to a container",
    ),
    # HabanaAI/gaudi-pytorch-bridge habana_frameworks/torch/distributed/hccl/__init__.py, _setup_module_id
    "hpu": Vendor(
        Host(hosts.hpu, tuple(f"/dev/accel/accel{minor}" for minor in MINORS), numbers=MINORS, named=MODULES),
        Driver("HABANA_VISIBLE_MODULES", modules),
        not_by_process=(
            "each process already has its own device: its local rank is an index into HABANA_VISIBLE_MODULES"
        ),
    ),
    # ROCm/clr rocclr/device/rocm/rocdevice.cpp: -1 is no device's number, and an empty mask none
    "rocm": Vendor(Host(hosts.rocm, hosts.render_nodes()), Driver("HIP_VISIBLE_DEVICES", as_rocm_lists_them)),
    "cpu": Vendor(Host(lambda box, held: None), Driver(mask="")),
    "mps": Vendor(Host(lambda box, held: box.write("uname", "Darwin arm64\n"), nodes=("",)), Driver(mask="")),
    # Ascend/pytorch torch_npu/npu/__init__.py, _parse_visible_devices and _device_count_ascend_hal
    "npu": Vendor(
        hosts.numbered("davinci"),
        Driver("ASCEND_RT_VISIBLE_DEVICES", empty_is_all=False, ordered=False, ascending=True),
    ),
    # aws-neuron/aws-neuron-driver neuron_cdev.c: one range of cores, from 0 for the container's first device
    "neuron": Vendor(
        Host(lambda box, held: trees.neuron(box, *held, cores=2), tuple(f"/dev/neuron{n}" for n in DEVICES)),
        Driver("NEURON_RT_VISIBLE_CORES", pairs_of_cores, pairs, ordered=False),
        gap="NEURON_RT_VISIBLE_CORES holds one range, but devices [0, 2] have a gap",
        not_by_process=(
            "PyTorch's plugin gives each process of torch's agent one NeuronCore by its local rank, "
            "and NEURON_RT_VISIBLE_CORES cannot give it others"
        ),
        ranks=2,
        by_rank=core_by_rank,
        not_others="PyTorch's plugin gives the processes the first NeuronCores that it finds, not those of devices {}",
    ),
    # Of these two no source says that the mask orders. pytorch/xla torch_xla/_internal/tpu.py and jax-ml/jax
    # jax/_src/test_multiprocess.py: one process opens a chip, and some of a host's chips need their bounds.
    "tpu": Vendor(
        hosts.numbered("accel"),
        Driver("TPU_VISIBLE_CHIPS", ordered=False),
        not_in_docker="k8sel does not know how Docker exposes chosen devices of type tpu",
        not_by_the_host="type tpu has no variable that exposes chosen host devices to a container",
        ranks=1,
        not_by_rank=("each of 2 processes would open every device, and only one process can open a device of type tpu"),
        part=(
            "a process gets 2 of {} tpu devices, and TPU_CHIPS_PER_PROCESS_BOUNDS and TPU_PROCESS_BOUNDS are not set: "
            "set them in the job's env, or use 1 or all {} devices for a process"
        ),
    ),
    "mlu": Vendor(hosts.numbered("cambricon_dev"), Driver("MLU_VISIBLE_DEVICES", ordered=False)),
}
HOSTS = {name: vendor.host for name, vendor in VENDORS.items()}


def shown(row: str, held: Collection[int], env: Mapping[str, str], placed: bool = False) -> list[int]:
    """The devices that a program gets, of those whose nodes are there; ``placed``: from the framework's plugin."""
    by_rank = VENDORS[row].by_rank
    return by_rank(sorted(held), env) if placed and by_rank else VENDORS[row].driver.shows(sorted(held), env)

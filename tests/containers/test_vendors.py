"""Each vendor's way into a container, on a real daemon: exactly the devices that the file names, in its order.

The devices are null devices by the vendors' names; the vendors' runtimes are stand-ins. The numbers of the file count
in the order of PCI addresses or module ids, which is not that of the nodes' names.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from containers import hosts
from containers.client import BASE, Docker, Done, job

pytestmark = [pytest.mark.docker, pytest.mark.xdist_group("docker")]

SEEN = """
import json, os
from pathlib import Path
nodes = [p for p in Path("/dev").rglob("*") if not p.is_symlink() and os.stat(p).st_rdev == os.makedev(1, 3)]
masks = {name: value for name, value in os.environ.items() if "VISIBLE" in name or "AFFINITY_MASK" in name}
print(json.dumps([sorted(str(p)[5:] for p in nodes if p.name != "null"), masks]))
"""
SHOW = ("python3", "-c", SEEN)
RUNTIMES = {"NVIDIA_VISIBLE_DEVICES": "void", "ASCEND_VISIBLE_DEVICES": "void"}
HIDDEN = {"CUDA_VISIBLE_DEVICES": "", "HIP_VISIBLE_DEVICES": "-1", **RUNTIMES}


def dri(*minors: int) -> list[str]:
    return sorted(node for minor in minors for node in (f"dri/card{minor - 128}", f"dri/renderD{minor}"))


XPU = ({"type": "xpu", "devices": [0, 2]}, dri(129, 130), {"ZE_AFFINITY_MASK": "0,1"})
# PCI order: 132, 131, 133. KFD counts 133 before 132.
ROCM = ({"type": "rocm", "devices": [2, 0]}, [*dri(132, 133), "kfd"], {"HIP_VISIBLE_DEVICES": "0,1"})
ACCEL = ["accel/accel2", "accel/accel3", "accel/accel_controlD2", "accel/accel_controlD3"]
HPU = ({"type": "hpu", "devices": [2, 0]}, ACCEL, {"HABANA_VISIBLE_MODULES": "4,0"})
MLU = ({"type": "mlu", "devices": [1, 4]}, ["cambricon_dev1", "cambricon_dev4"], {"MLU_VISIBLE_DEVICES": "0,1"})
CUDA_MASK = ",".join(f"GPU-00000000-0000-0000-0000-00000000000{minor}" for minor in (5, 7))
CUDA = (
    {"type": "cuda", "devices": [2, 0]},
    ["nvidia5", "nvidia7"],
    {"CUDA_VISIBLE_DEVICES": CUDA_MASK, "NVIDIA_VISIBLE_DEVICES": "void"},
)

Case = tuple[dict[str, Any], list[str], dict[str, str]]


@pytest.fixture(scope="session")
def host_image(docker_daemon: Docker, host: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image for ``host``, for all daemons."""
    context = tmp_path_factory.mktemp("host-image")
    hosts.image_of(host, context)
    docker_daemon("build", "-q", "-t", "host", str(context))
    docker_daemon("save", "-o", str(context / "host.tar"), "host")
    return str(context / "host.tar")


@pytest.fixture(scope="session")
def by_cdi(cdi_daemon: Docker, host: Path, host_image: str) -> Docker:
    """The daemon, when the vendors' tools have written their specs."""
    hosts.write_specs(host, cdi_daemon.hook / "libnvidia-ml.so.1")
    cdi_daemon("load", "-qi", host_image)
    return cdi_daemon


def seen(done: Done) -> tuple[list[str], dict[str, str]]:
    """The device nodes in the container, and the variables that choose among them."""
    assert done.returncode == 0, done.stderr
    nodes, masks = json.loads(done.stdout)
    return nodes, masks


@pytest.mark.parametrize(
    "case",
    [
        XPU,
        ROCM,
        (*HPU[:2], {**HPU[2], "HABANA_VISIBLE_DEVICES": "2,3"}),
        ({"type": "npu", "devices": [1, 4]}, ["davinci1", "davinci4"], {"ASCEND_RT_VISIBLE_DEVICES": "0,1",
                                                                        "ASCEND_VISIBLE_DEVICES": "1,4"}),
        ({"type": "neuron", "devices": [4, 5]}, ["neuron4", "neuron5"], {"NEURON_RT_VISIBLE_CORES": "0-3"}),
        ({"type": "xpu", "devices": []}, [], HIDDEN),
    ],
    ids=lambda case: case[0]["type"],
)  # fmt: skip
@pytest.mark.usefixtures("host_image")
def test_a_vendors_own_way(docker_daemon: Docker, host: Path, case: Case) -> None:
    accelerator, nodes, masks = case
    done = docker_daemon.k8sel(text=job(*SHOW, image="host", accelerator=accelerator), root=host)
    assert seen(done) == (nodes, masks)


@pytest.mark.parametrize("case", [CUDA, XPU, ROCM, HPU, MLU], ids=lambda case: case[0]["type"])
def test_cdi_devices(by_cdi: Docker, host: Path, case: Case) -> None:
    accelerator, nodes, masks = case
    image = BASE if accelerator["type"] == "cuda" else "host"  # there the library looks for nodes itself
    done = by_cdi.k8sel("--cdi", text=job(*SHOW, image=image, accelerator=accelerator), root=host)
    assert seen(done) == (nodes, masks)


def test_a_newer_daemon_takes_the_other_ways_too(cdi_daemon: Docker) -> None:
    accelerator, nodes, masks = CUDA
    done = cdi_daemon.k8sel(text=job(*SHOW, accelerator=accelerator))
    assert seen(done) == (nodes, {**masks, "NVIDIA_VISIBLE_DEVICES": "0,2"})


MEET = """
import os, socket, time
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if os.environ["RANK"] == "0":
    print(socket.create_server(("", place[1])).accept()[0].recv(9).decode())
else:
    while True:
        try:
            socket.create_connection(place, 1).send(os.uname().nodename[-8:].encode())
            break
        except OSError:
            time.sleep(0.1)
"""


def test_nodes_of_a_newer_daemon_hear_each_other(cdi_daemon: Docker) -> None:
    done = cdi_daemon.k8sel(text=job("python3", "-c", MEET, nodes=2))
    assert (done.returncode, done.stdout) == (0, "box-master-0: worker-0\n"), done.stderr


def test_where_cdi_is_the_one_way_it_is_taken(by_cdi: Docker, host: Path) -> None:
    accelerator, nodes, masks = MLU
    assert seen(by_cdi.k8sel(text=job(*SHOW, image="host", accelerator=accelerator), root=host)) == (nodes, masks)


def test_the_printed_line_names_cdi_devices(by_cdi: Docker, host: Path) -> None:
    text = job(*SHOW, image="host", accelerator=XPU[0])
    printed = by_cdi.k8sel("-q", "--cdi", "--print", text=text, root=host).stdout
    assert "--device intel.com/gpu=0000-3b-00-0-0x0bd5 --device intel.com/gpu=0000-c1-00-0-0x0bd5" in printed


def test_a_user_who_is_not_root_may_open_them(docker_daemon: Docker, host: Path, host_image: str) -> None:
    text = job(*SHOW, image="host", accelerator=XPU[0], podSecurityContext={"runAsUser": 1000})
    nodes, masks = seen(docker_daemon.k8sel(text=text, root=host))
    assert (nodes, masks) == XPU[1:]


@pytest.mark.parametrize(
    ("options", "accelerator", "said"),
    [
        (["--cdi"], {"type": "cuda", "devices": [9]}, "no such CDI device: it needs a CDI spec of nvidia.com/gpu"),
        (["--cdi"], {"type": "xpu", "devices": [3]}, "the job uses xpu device 3, and this machine has 3"),
        (["--cdi"], {"type": "npu"}, "the table has no CDI device of type npu"),
        (["--cdi"], {"type": "cpu"}, "type cpu has no devices, so --cdi has no effect"),
    ],
)
def test_what_cdi_cannot_do_is_said(
    by_cdi: Docker, host: Path, options: list[str], accelerator: dict[str, Any], said: str
) -> None:
    done = by_cdi.k8sel(*options, text=job("echo", accelerator=accelerator), root=host)
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr


def test_a_daemon_without_cdi_is_named(docker_daemon: Docker) -> None:
    done = docker_daemon.k8sel("--cdi", text=job("echo", accelerator={"type": "cuda"}))
    assert (done.returncode, done.stdout) == (1, "")
    assert "the daemon has no CDI: use Docker 25 or newer, or leave --cdi out" in done.stderr

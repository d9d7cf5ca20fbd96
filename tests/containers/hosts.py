"""A machine with devices of every vendor: as files below a folder, with device nodes that the kernel takes for such."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from entrypoint.machines import Box
from entrypoint.trees import Card, amd, drm, gaudi, kfd

RENDER = 105  # the group of the nodes below /dev/dri
# Minors, accel numbers and KFD's order all differ from the order that counts (PCI addresses, module ids).
INTEL = (Card(128, "9a"), Card(129, "3b"), Card(130, "c1"))
AMD = amd((131, "65"), (132, "05"), (133, "e5"))
KFD = (0, "0"), (133, "1003"), (131, "1001"), (132, "1002")
GAUDI = (0, 6), (1, 2), (2, 4), (3, 0)
NUMBERED = ("davinci", "neuron", "cambricon_dev", "nvidia")
NULL = os.makedev(1, 3)


def lay_out(root: Path) -> None:
    """The machine: /dev, /sys, and the CDI specs that the vendors' tools would write."""
    box = Box(root, root)
    drm(box, *INTEL, *AMD)
    for card in (*INTEL, *AMD):
        (root / "sys/class/drm" / f"card{card.minor - 128}").symlink_to(f"renderD{card.minor}")
    kfd(box, *KFD)
    gaudi(box, *GAUDI)
    for name in NUMBERED:
        for number in range(8):
            box.write(f"dev/{name}{number}", "")
            box.write(f"sys/class/neuron_device/neuron{number}/core_count", "2\n")
    for node in sorted((root / "dev").rglob("*")):
        if node.is_file() and not node.is_symlink():
            _make_device(node)


def _make_device(file: Path) -> None:
    file.unlink()
    os.mknod(file, stat.S_IFCHR, NULL)
    file.chmod(0o660)
    if file.parent.name == "dri":
        os.chown(file, 0, RENDER)


def image_of(root: Path, context: Path) -> None:
    """A build's context for an image in which the entrypoint sees the machine's /sys, and the container's own /dev."""
    shutil.copytree(root / "sys", context / "sys")
    lines = ["FROM box/base:1", "COPY sys /host/sys", "RUN ln -s /dev /host/dev", "ENV K8SEL_ROOT=/host"]
    (context / "Dockerfile").write_text("\n".join(lines) + "\n")


def write_specs(root: Path, library: Path) -> None:
    """As nvidia-ctk, intel-cdi-specs-generator and amd-ctk would."""
    _spec(root, "nvidia.com/gpu", {str(n): [f"nvidia{7 - n}"] for n in range(8)}, _common(library))
    _spec(root, "intel.com/gpu", {f"0000-{each.bus}-00-0-0x0bd5": _dri(each) for each in INTEL})
    amd_nodes = {str(n): [*_dri(each), "kfd"] for n, each in enumerate(sorted(AMD, key=lambda card: card.bus))}
    _spec(root, "amd.com/gpu", {**amd_nodes, "all": [node for nodes in amd_nodes.values() for node in nodes]})
    _spec(root, "intel.com/gaudi", {f"accel{n}": [f"accel/accel{n}", f"accel/accel_controlD{n}"] for n, _ in GAUDI})
    _spec(root, "cambricon.com/mlu", {f"mlu-{n}": [f"cambricon_dev{n}"] for n in range(8)})


def _dri(card: Card) -> list[str]:
    return [f"dri/card{card.minor - 128}", f"dri/renderD{card.minor}"]


def _common(library: Path) -> dict[str, Any]:
    """The edits common to all devices: NVIDIA/nvidia-container-toolkit pkg/nvcdi/wrapper.go, GetCommonEdits."""
    mount = {"hostPath": str(library), "containerPath": "/usr/lib/libnvidia-ml.so.1", "options": ["ro", "bind"]}
    return {"env": ["NVIDIA_VISIBLE_DEVICES=void"], "mounts": [mount]}


def _spec(root: Path, kind: str, devices: dict[str, list[str]], common: dict[str, Any] | None = None) -> None:
    listed = [{"name": name, "containerEdits": {"deviceNodes": _nodes(root, nodes)}} for name, nodes in devices.items()]
    spec = {"cdiVersion": "0.6.0", "kind": kind, "devices": listed, "containerEdits": common or {}}
    file = root / "etc" / "cdi" / f"{kind.replace('/', '-')}.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(spec))


def _nodes(root: Path, nodes: Iterable[str]) -> list[dict[str, str]]:
    return [{"path": f"/dev/{node}", "hostPath": f"{root}/dev/{node}", "type": "c"} for node in dict.fromkeys(nodes)]

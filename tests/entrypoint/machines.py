"""Machines as folders, and the entrypoint started on them as it is in a container: as a zipapp, by a Python alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MODEL = "NVIDIA H100 80GB HBM3"


@dataclass(frozen=True)
class Gpu:
    """A GPU as the kernel module shows it in /proc."""

    minor: int
    bus: str
    uuid: str | None = ""  # "": made from the minor; None: the line is missing
    excluded: bool = False
    node: bool = True  # its device node is in the container


def uuid(minor: int) -> str:
    """The UUID that the fake driver gives the device with that minor number."""
    return f"GPU-00000000-0000-0000-0000-{minor:012d}"


@dataclass(frozen=True)
class Box:
    """One machine below ``root`` and the folder with the entrypoint's two files."""

    root: Path
    entrypoint: Path

    def write(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")

    def nodes(self, *minors: int) -> None:
        for name in ("nvidiactl", "nvidia-uvm", "null", *(f"nvidia{minor}" for minor in minors)):
            self.write(f"dev/{name}", "")

    def gpus(self, *gpus: Gpu) -> None:
        self.nodes(*(gpu.minor for gpu in gpus if gpu.node))
        self.write(
            "proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar 5\n"
        )
        for gpu in gpus:
            self.write(f"proc/driver/nvidia/gpus/{gpu.bus}/information", _information(gpu))

    def parts(self, minor: int, *here: tuple[int, int], others: tuple[int, ...] = ()) -> None:
        """A GPU's parts (MIG): (GPU instance, compute instance) that this container has, instances that others have."""
        everyone = [(each, 0) for each in others]
        for gpu, inner in (*here, *everyone):
            self.write(f"proc/driver/nvidia/capabilities/gpu{minor}/mig/gi{gpu}/ci{inner}/access", "")
        lines = [f"{name} {number}" for name, number in _capabilities().items()]
        self.write("proc/driver/nvidia-caps/mig-minors", "\n".join(lines) + "\n")
        for gpu, inner in here:
            for name in (f"gpu{minor}/gi{gpu}/access", f"gpu{minor}/gi{gpu}/ci{inner}/access"):
                self.write(f"dev/nvidia-caps/nvidia-cap{_capabilities()[name]}", "")

    def library(self, built: Path) -> None:
        (self.root / "lib").mkdir(exist_ok=True)
        (self.root / "lib" / "libnvidia-ml.so.1").symlink_to(built)
        self.write("lib/libcuda.so.1", "")  # what a runtime brings beside it

    def environ(self, expect: Mapping[str, Any] | None, env: Mapping[str, str]) -> dict[str, str]:
        own = {
            "PATH": os.defpath,
            "K8SEL_ROOT": str(self.root),
            "K8SEL_NODE": "box",
            "K8SEL_TERMINATION_LOG": str(self.root / "termination-log"),
            "FAKE_NVML_DEV": str(self.root / "dev"),
        }
        if expect is not None:
            own["K8SEL_EXPECT"] = json.dumps({"version": 1, "accelerator": "cuda", **expect})
        return {**own, **env}

    def start(
        self,
        *words: str,
        expect: Mapping[str, Any] | None = None,
        env: Mapping[str, str] | None = None,
        python: str = sys.executable,
    ) -> End:
        """The entrypoint from start to end; the command is ``env`` unless ``words`` name one."""
        command = [python, "-I", "-S", str(self.entrypoint / "entrypoint.pyz"), *(words or ("env",))]
        done = subprocess.run(
            command, env=self.environ(expect, env or {}), capture_output=True, text=True, timeout=60, check=False
        )
        assert "Traceback" not in done.stderr
        return End(done.returncode, done.stdout, done.stderr, self._message())

    def _message(self) -> str:
        log = self.root / "termination-log"
        return log.read_text(encoding="utf-8") if log.exists() else ""


@dataclass(frozen=True)
class End:
    """How a start ended."""

    status: int
    out: str
    err: str
    message: str  # the termination message

    @property
    def env(self) -> dict[str, str]:
        """The command's environment, where the command was ``env``."""
        assert self.status == 0, self.err
        return dict(line.split("=", 1) for line in self.out.splitlines() if "=" in line)

    @property
    def mask(self) -> str | None:
        return self.env.get("CUDA_VISIBLE_DEVICES")

    @property
    def receipt(self) -> dict[str, Any]:
        (line,) = [line for line in self.err.splitlines() if line.startswith("k8sel-receipt: ")]
        found: dict[str, Any] = json.loads(line.partition(": ")[2])
        return found


def devices(*positions: int, **more: object) -> dict[str, Any]:
    """An expectation of those devices."""
    return {"devices": list(positions), **more}


def script(path: Path, text: str) -> str:
    """An executable /bin/sh script; returns its path."""
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
    return str(path)


def left_over(words: Sequence[str]) -> list[str]:
    """Command lines of running processes that contain all of ``words``."""
    lines = []
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = process.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if all(word in line for word in words):
            lines.append(line)
    return lines


def _capabilities() -> dict[str, int]:
    """The minor numbers of /dev/nvidia-caps/nvidia-cap<N>, as the kernel module hands them out, for four GPUs."""
    names = ["config", "monitor"]
    for gpu in range(4):
        for instance in range(15):
            own = f"gpu{gpu}/gi{instance}"
            names += [f"{own}/access", *(f"{own}/ci{inner}/access" for inner in range(8))]
    return {name: number for number, name in enumerate(names, 1)}


def _information(gpu: Gpu) -> str:
    identity = uuid(gpu.minor) if gpu.uuid == "" else gpu.uuid
    lines = [
        f"Model: \t\t {MODEL}",
        "IRQ:   \t\t 30",
        *([f"GPU UUID: \t {identity}"] if identity else []),
        "Video BIOS: \t 96.00.5e.00.01",
        "Bus Type: \t PCIe",
        f"Bus Location: \t {gpu.bus}",
        f"Device Minor: \t {gpu.minor}",
        f"GPU Excluded:\t {'Yes' if gpu.excluded else 'No'}",
    ]
    return "\n".join(lines) + "\n"

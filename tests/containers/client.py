"""The tests' client of their daemon: runs `docker` and `k8sel docker`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from entrypoint import rooted

BASE = "box/base:1"  # Debian with python3, as root
NO_PYTHON = "box/nopython:1"
MASKS = ("CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER")
Done = subprocess.CompletedProcess[str]


@dataclass(frozen=True, slots=True)
class Docker:
    """A daemon; called, it is its command line."""

    address: str
    hook: Path  # the folder of the stand-in for NVIDIA's hook

    @property
    def env(self) -> dict[str, str]:
        """In which clients find it; the classic builder is in every version of Docker."""
        clean = {name: value for name, value in os.environ.items() if name not in MASKS}
        return {**clean, "DOCKER_HOST": self.address, "DOCKER_BUILDKIT": "0"}

    def __call__(self, *words: str, check: bool = True) -> Done:
        """`docker ...`."""
        done = subprocess.run(["docker", *words], env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0 or not check, done.stderr
        return done

    def k8sel(self, *options: str, text: str, root: Path | None = None) -> Done:
        """`k8sel docker OPTIONS -` for the job file ``text``, on the machine below ``root``; nothing is left behind."""
        env = {**self.env, **(rooted.containers(root) if root else {})}
        done = subprocess.run(command(*options), input=text, env=env, capture_output=True, text=True, check=False)
        assert self("ps", "-aq").stdout == ""
        return done


def command(*options: str) -> list[str]:
    """The command line that starts `k8sel docker`."""
    return [sys.executable, *rooted.K8SEL, "docker", *options, "-"]


def job(*words: str, **spec: object) -> str:
    """A job file."""
    fields = {"image": BASE, "command": words, "launcher": "python", "accelerator": {"type": "cpu"}, **spec}
    meta = {"name": "box"}
    return json.dumps({"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": meta, "spec": fields})

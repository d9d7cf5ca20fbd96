"""The chart rendered by Helm's own engine, and what it has to be equal to."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from planning import goldens

from cluster import machine
from k8sel import api
from k8sel.jobfile import canonical

ROOT = Path(__file__).resolve().parents[2]
CHART = ROOT / "charts" / "k8sel"
HELM = machine.CACHE / "bin" / "helm"
RENDER = machine.CACHE / "bin" / "chart-render"

Object = dict[str, Any]


class RefusedError(Exception):
    """Helm's message."""


class Renderer:
    """Many files rendered by one process."""

    def __init__(self, chart: Path) -> None:
        environment = {**os.environ, "GOGC": "400"}  # a third of its time is the garbage collector's otherwise
        self._process = subprocess.Popen(
            [RENDER, chart], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def __enter__(self) -> Renderer:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate(timeout=10)

    def render(self, values: str, release: str = "release", namespace: str = "default") -> list[Object]:
        """The objects of one job file. Raises RefusedError."""
        return self._answer(values, release, namespace, "objects")

    def hooks(self, values: str, release: str = "release") -> list[Object]:
        """The hooks beside them."""
        return self._answer(values, release, "default", "hooks")

    def _answer(self, values: str, release: str, namespace: str, part: str) -> list[Object]:
        stdin, stdout = self._process.stdin, self._process.stdout
        assert stdin is not None
        assert stdout is not None
        stdin.write(json.dumps({"release": release, "namespace": namespace, "values": values}).encode() + b"\n")
        stdin.flush()
        answer = json.loads(stdout.readline())
        if "error" in answer:
            raise RefusedError(answer["error"])
        objects: list[Object] = answer.get(part, [])
        return objects


def rendered(text: str) -> list[Object]:
    """Returns the objects of `k8sel render` for a job file."""
    (job,) = api.load(text.encode(), "job.yaml")
    return api.render(api.plan(job))


def comparable(objects: list[Object]) -> str:
    """Objects as text that is the same only for the same objects.

    The entrypoint is replaced as in the goldens, and what it is told is compared as the JSON that it reads.
    """
    return json.dumps(json.loads(canonical.dumps([_told(goldens.with_stand_ins(item)) for item in objects])), indent=1)


def _told(part: object) -> object:
    if isinstance(part, list):
        return [_told(item) for item in part]
    if not isinstance(part, dict):
        return part
    if part.get("name") == "K8SEL_EXPECT":
        return {**part, "value": json.loads(part["value"])}
    return {key: _told(value) for key, value in part.items()}

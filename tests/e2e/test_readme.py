"""The README's third step: its commands, typed on the test cluster, show what it shows."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from cluster.client import Cluster

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
# What differs from run to run: which GPUs came, which worker answered, the namespace, the entrypoint's hash. And what
# the README says that it leaves out.
CHANGING = {
    r"GPU-[-.0-9]+": "GPU",
    r"\b0000:[0-9a-f]{2}:00\.0": "PCI",
    r"first-worker-\d": "first-worker",
    r"\b(default|test-\d+-\d+)/": "",
    r"k8sel-[0-9a-f]{10}": "k8sel-hash",
    r"; libcuda\.so\.1 is in no folder .*": "",
}


def blocks() -> list[str]:
    """The console transcripts of the third step."""
    step = README.split("## On a real cluster")[1]
    return [block for block in re.findall(r"```\n(.*?)```", step, re.DOTALL) if block.startswith("$ ")]


def steady(text: str) -> str:
    for pattern, word in CHANGING.items():
        text = re.sub(pattern, word, text)
    return text


def shown(block: str) -> set[str]:
    """The lines that it must show; how long a job is Pending, and with what, is the cluster's affair."""
    return {
        line
        for line in steady(block).splitlines()
        if not line.startswith(("$ ", "exit status")) and "Pending" not in line
    }


def typed(cluster: Cluster, namespace: str, block: str) -> tuple[str, list[int]]:
    """Returns the output of the k8sel commands of ``block``, and their exit statuses."""
    output, statuses = "", []
    for command in re.findall(r"^\$ k8sel ([^;\n]+)", block, re.MULTILINE):
        done: subprocess.CompletedProcess[str] = cluster.k8sel(*command.split(), "-n", namespace, check=False)
        output += done.stderr + done.stdout
        statuses.append(done.returncode)
    return output, statuses


@pytest.mark.usefixtures("gpus")
def test_from_nothing_to_a_jobs_rank_logs(cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    output, statuses = typed(cluster, namespace, blocks()[0])
    assert statuses == [0, 0, 0]
    assert shown(blocks()[0]) - set(steady(output).splitlines()) == set(), output


@pytest.mark.usefixtures("gpus")
def test_a_gpu_that_is_promised_and_not_handed_over(
    cluster: Cluster, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(ROOT)
    with cluster.broken("next"):
        output, statuses = typed(cluster, namespace, blocks()[1])
    assert statuses == [1]
    assert shown(blocks()[1]) - set(steady(output).splitlines()) == set(), output

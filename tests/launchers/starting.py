"""Job files and lines started on this machine by the real launchers, and what their ranks say."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from entrypoint import rooted
from entrypoint.machines import uuid

Rank = dict[str, Any]
Done = subprocess.CompletedProcess[str]

ADDS = str(Path(__file__).parent / "programs" / "adds.py")
TOLD = str(Path(__file__).parent / "programs" / "told.py")
SHOW = str(Path(__file__).parents[1] / "e2e" / "programs" / "show.py")  # needs no torch, and so starts fast
CPUS = sorted(os.sched_getaffinity(0))[:2]
ON_TWO_CPUS = ("taskset", "--cpu-list", ",".join(map(str, CPUS)))  # in front of a command
# What some shell, launcher or agent in between would change.
WORDS = ("--bf16", "True", "--lr", "1e-3", "two  words", "$HOME", "$$", "${local_rank}", "--", "")


def job(*words: str, **spec: object) -> str:
    """A job file that starts a program with these words; ``spec`` adds to it and overrides it."""
    fields = {"image": "app:1", "command": ["python", *words], **spec}
    file = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": "job"}, "spec": fields}
    return json.dumps(file)  # JSON is YAML


def start(command: Sequence[str], env: Mapping[str, str], text: str = "") -> Done:
    """Any command, from start to end."""
    return subprocess.run(command, input=text, env=dict(env), capture_output=True, text=True, check=False)


def k8sel(text: str, env: Mapping[str, str], *words: str, python: str = sys.executable) -> Done:
    """A k8sel command that reads ``text``."""
    return start([python, *rooted.K8SEL, *words, "-"], env, text)


def run(text: str, env: Mapping[str, str], python: str = sys.executable) -> Done:
    """`k8sel run`."""
    return k8sel(text, env, "run", "-q", python=python)


def ranks(*ended: Done) -> list[Rank]:
    """Returns the output of the ranks of runs that succeeded, in their order."""
    for done in ended:
        assert done.returncode == 0, done.stderr
    lines = [line for done in ended for line in done.stdout.splitlines()]
    said: list[Rank] = [json.loads(line.partition(" ")[2]) for line in lines if line.startswith("shown {")]
    return sorted(said, key=lambda rank: int(rank["env"].get("RANK") or 0))


def by_uuid(*numbers: int) -> str:
    """The mask of the fixture's GPUs with these numbers."""
    return ",".join(uuid(7 - number) for number in numbers)


def assert_one_group(seen: list[Rank], mask: str, nodes: int = 1) -> None:
    """Every rank has its place, the whole mask, its share of the CPUs and the command's own words, and they add up."""
    size, local_size = len(seen), len(seen) // nodes
    threads = max(1, len(os.sched_getaffinity(0)) // local_size)  # the fixture's machine says nothing of cores
    for number, rank in enumerate(seen):
        env = rank["env"]
        places = [env[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE")]
        assert places == [str(number), str(number % local_size), str(size), str(local_size)]
        assert (env["CUDA_VISIBLE_DEVICES"], rank["devices"]) == (mask, len(list(filter(None, mask.split(",")))))
        assert (env["OMP_NUM_THREADS"], rank["threads"]) == (str(threads), threads)
        assert (rank["words"], rank["sum"]) == (list(WORDS), size)

"""docs/cpu.md: each job on it does what stands below it, and its numbers of threads are the entrypoint's."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from entrypoint.machines import Box

from docs.test_docs import ROOT
from k8sel import api
from k8sel.entrypoint import cpus
from k8sel.entrypoint.machine import under
from k8sel.jobfile.load import load
from k8sel.machine import hardware

PAGE = (ROOT / "docs" / "cpu.md").read_text(encoding="utf-8")
JOBS = re.findall(
    r"## (\w+ nodes?)\n.*?```yaml\n(.*?)```\n\n```sh\nk8sel (.*?) job.yaml\n```\n.*?```text\n(.*?)```\n",
    PAGE,
    re.DOTALL,
)
COUNTED = re.findall(r"^\| (.*? of them|2 sockets.*?) \| (\d+) \| (\d+|none) \| (\d+) \|$", PAGE, re.MULTILINE)
CORES = 48  # two sockets of 24


def k8sel(options: str, job: str) -> str:
    command = [sys.executable, "-m", "k8sel", *options.split(), "--quiet", "-"]
    return subprocess.run(command, input=job, capture_output=True, text=True, check=True).stdout


def test_all_of_the_page_is_here() -> None:
    assert [title for title, *_ in JOBS] == ["One node", "Two nodes", "Four nodes"]
    assert len(COUNTED) == PAGE.count("\n| 2 sockets") + PAGE.count("\n| `resources:") == 5


@pytest.mark.parametrize(("title", "job", "options", "shown"), JOBS, ids=[title for title, *_ in JOBS])
def test_a_job_does_what_stands_below_it(title: str, job: str, options: str, shown: str) -> None:
    printed = re.sub(r"'K8SEL_EXPECT=[^']*'", "K8SEL_EXPECT=...", k8sel(options, job))
    assert printed == shown.replace(" \\\n  ", " ")


@pytest.mark.parametrize(("nodes", "job"), [(nodes, job) for nodes, (_, job, *_) in zip((1, 2, 4), JOBS, strict=True)])
def test_a_job_has_two_processes_on_each_of_its_nodes(nodes: int, job: str) -> None:
    (made,) = load(job.encode(), "job.yaml")
    objects = list(yaml.safe_load_all(k8sel("render", job)))

    assert api.plan(made).world_size == 2 * nodes
    assert objects[-1]["kind"] == ("MPIJob" if "mpirun" in job else "PyTorchJob")
    assert api.plan(made, "run", nodes=1).world_size == 2


@pytest.mark.parametrize(("part", "parts"), [("socket", hardware.sockets()), ("numa", hardware.numa_nodes())])
def test_a_machine_that_is_asked_says_how_many_processes(part: str, parts: int) -> None:
    job = yaml.safe_load(JOBS[0][1])
    del job["spec"]["processesPerNode"]
    job["spec"]["cpu"] = {"processPer": part}

    assert f"-n {parts} " in k8sel("run --print", json.dumps(job))


@pytest.mark.parametrize(("machine", "processes", "workers", "threads"), COUNTED)
def test_threads_are_those_that_the_entrypoint_counts(
    machine: str, processes: str, workers: str, threads: str, tmp_path: Path
) -> None:
    box = Box(tmp_path, tmp_path)
    for cpu in range(2 * CORES):
        siblings = f"{cpu % CORES},{cpu % CORES + CORES}\n"
        box.write(f"sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", siblings)
    limit = re.search(r'cpu: "(\d+)"', machine)
    box.write("proc/self/cgroup", "0::/\n")
    box.write("sys/fs/cgroup/cpu.max", f"{int(limit[1]) * 100000} 100000\n" if limit else "max 100000\n")

    share = cpus.share(under(str(tmp_path)), int(processes), range(2 * CORES), int(workers.replace("none", "0")))
    assert share.threads == int(threads)

"""Rules for torch.distributed's backend and oneCCL: they fit the command, the devices and the launcher.

The entrypoint checks the versions that a backend needs, because it runs in the image.
"""

from __future__ import annotations

from collections.abc import Iterator

from k8sel.errors import Problem
from k8sel.facts.backends import BACKENDS, uses_oneccl
from k8sel.facts.platforms import Platform
from k8sel.jobfile import oneccl
from k8sel.jobfile.complete import CompleteJob
from k8sel.jobfile.rules.common import rules_in
from k8sel.wording import did_you_mean, invalid, not_supported

HERE = ("spec", "backend")
CCL = ("spec", "ccl")


def known_backend(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a backend that the table does not list."""
    name = job.spec.backend
    if name is not None and name not in BACKENDS:
        hint = did_you_mean(name, BACKENDS) or "leave it out if the program has its own backend"
        yield not_supported(HERE, name, BACKENDS, hint)


def workers_have_cores(job: CompleteJob, platform: Platform) -> Iterator[Problem]:
    """Refuses a backward range of cores, and too few or too many cores for oneCCL's workers.

    oneCCL takes one core for each worker of the node (src/common/env/env.cpp, parse_affinity).
    """
    affinity, path = job.spec.ccl.worker_affinity, (*CCL, "workerAffinity")
    if affinity in (None, "auto") or not uses_oneccl(job.spec.backend):
        return
    ranges = [_range(part) for part in str(affinity).split(",")]
    backwards = next(((first, last) for first, last in ranges if first > last), None)
    workers, processes = oneccl.workers(job.spec), job.spec.processes_per_node
    cores = sum(last - first + 1 for first, last in ranges)
    if backwards:
        message = f"{backwards[0]}-{backwards[1]} begins with the higher core"
        yield invalid(path, message, f"write {backwards[1]}-{backwards[0]}")
    elif cores != workers * processes:
        message = f"{workers * processes} cores expected for {processes} x {workers} workers of a node, {cores} found"
        yield invalid(path, message, "write auto, or one core for each worker of the node")


def _range(cores: str) -> tuple[int, int]:
    first, _, last = cores.partition("-")
    return int(first), int(last or first)


RULES = rules_in(globals())

"""Each trap is found where it is, and nowhere else."""

from __future__ import annotations

import copy
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from k8sel.audit import TRAPS, Trap, audit

CASES = Path(__file__).parent / "cases"
CLEAN = sorted(CASES.glob("*/clean.yaml"))
SHOWN = sorted(CASES.glob("*/trap.yaml"))
PLACES = {  # trap -> the line that it is named at, and what is said to stand there
    "nproc-per-node-auto": (7, "nprocPerNode is auto"),
    "torchrun-beats-operator": (19, "torchrun has --standalone, and the job has 4 nodes"),
    "exposure-beside-request": (14, "NVIDIA_VISIBLE_DEVICES=0 beside nvidia.com/gpu: 1"),
    "openmpi-without-hostfile": (21, "mpirun has no --hostfile"),
    "no-shared-memory": (17, "pytorch has no volume at /dev/shm"),
    "mask-beyond-count": (14, "CUDA_VISIBLE_DEVICES=2,3, and the container has 2 devices, from 0 on"),
    "ranks-not-slots": (21, "2 ranks, and 2 workers with 2 slots"),
    "failed-job-keeps-devices": (9, "cleanPodPolicy is None"),
    "threads-beyond-cpus": (19, "2 x 16 threads, and the container has 16 CPUs"),
    "no-core-for-ccl-workers": (21, "2 x 16 threads and 2 x 1 workers of oneCCL, and the container has 32 CPUs"),
    "openmpi-binds-to-core": (21, "mpirun has no --bind-to, 2 ranks and 31 threads for each"),
    "ccl-cores-not-workers": (21, "CCL_WORKER_AFFINITY=31, and the 2 processes of a node have 2 workers"),
    "requests-not-limits": (16, "requests has nvidia.com/gpu: 2, limits 1"),
}


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.id)
def test_a_trap_is_found_and_no_other(trap: Trap) -> None:
    findings, objects = audit((CASES / trap.id / "trap.yaml").read_bytes(), "trap.yaml")

    assert objects == 1
    assert {finding.trap.id for finding in findings} == {trap.id}


@pytest.mark.parametrize("trap", TRAPS, ids=lambda trap: trap.id)
def test_a_clean_manifest_is_clean(trap: Trap) -> None:
    assert audit((CASES / trap.id / "clean.yaml").read_bytes(), "clean.yaml") == ([], 1)


@pytest.mark.parametrize("trap", PLACES)
def test_a_trap_is_named_where_it_stands(trap: str) -> None:
    findings, _ = audit((CASES / trap / "trap.yaml").read_bytes(), "trap.yaml")

    assert (findings[0].location.line, findings[0].found) == PLACES[trap]


@pytest.mark.parametrize(
    ("trap", "old", "new", "found"),
    [
        ("no-core-for-ccl-workers", "OMP_NUM_THREADS=16", "OMP_NUM_THREADS, '16'", True),
        ("no-core-for-ccl-workers", "-genv, OMP_NUM_THREADS=16", "-ppn, '2'", False),
        ("openmpi-binds-to-core", "-x, OMP", "--map-by, slot, -x, OMP", True),
        ("openmpi-binds-to-core", "-x, OMP", "--map-by, 'slot:PE=31', -x, OMP", False),
        ("ccl-cores-not-workers", '"31"', "30-33", True),
        ("ccl-cores-not-workers", '"31"', "30-31", False),
        ("ccl-cores-not-workers", '"31"', "auto", False),
        ("threads-beyond-cpus", 'cpu: "16"', "cpu: 31500m", True),
        ("threads-beyond-cpus", 'cpu: "16"', "cpu: 32", False),
        ("mask-beyond-count", '"2,3"', '"0,2"', True),
        ("mask-beyond-count", '"2,3"', '"0,1"', False),
        ("threads-beyond-cpus", 'torchrun, --nproc-per-node, "2"', "python", False),
        ("masks-count-twice", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", False),
        ("masks-count-twice", "HIP_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES", True),
    ],
)
def test_a_number_that_fits_is_no_trap(trap: str, old: str, new: str, found: bool) -> None:
    text = (CASES / trap / "trap.yaml").read_text()
    assert old in text
    findings, _ = audit(text.replace(old, new).encode(), "trap.yaml")

    assert (trap in [finding.trap.id for finding in findings]) == found


@pytest.mark.parametrize(("value", "found"), [("level_zero:gpu", False), ("*:*", False), ("level_zero:1", True)])
def test_a_selector_that_selects_no_device_is_no_second_mask(value: str, found: bool) -> None:
    text = (CASES / "masks-count-twice" / "trap.yaml").read_text().replace("amd.com/gpu", "gpu.intel.com/xe")
    text = text.replace("HIP_VISIBLE_DEVICES", "ZE_AFFINITY_MASK")
    text = text.replace('ROCR_VISIBLE_DEVICES\n      value: "0"', f'ONEAPI_DEVICE_SELECTOR\n      value: "{value}"')
    findings, _ = audit(text.encode(), "trap.yaml")

    assert [finding.trap.id for finding in findings] == (["masks-count-twice"] if found else [])


def test_every_trap_has_a_row_of_its_own() -> None:
    ids = [trap.id for trap in TRAPS]

    assert sorted(set(ids)) == sorted(ids) == sorted(path.parent.name for path in SHOWN)
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)+", each) for each in ids)
    assert not [trap.id for trap in TRAPS if not (trap.looks_at and trap.consequence and trap.fix and trap.source)]


def test_all_documents_and_lists_are_looked_at() -> None:
    shown = (CASES / "mask-twice" / "trap.yaml").read_text()
    other = "apiVersion: v1\nkind: Service\nmetadata: {name: x}\nspec: {ports: [{port: 80}]}\n"
    listed = json.dumps({"apiVersion": "v1", "kind": "List", "items": [yaml.safe_load(shown), yaml.safe_load(other)]})
    findings, objects = audit(f"{shown}---\n{other}---\n{listed}\n".encode(), "all.yaml")

    assert objects == 2
    assert [finding.trap.id for finding in findings] == ["mask-twice", "mask-twice"]
    assert findings[1].field[:2] == ("items", 0)


ODD: list[Any] = [None, True, 0, -1, 3.5, "", "x", "auto", "$(RANK)", [], [1], ["", None], {}, {"a": 1}, "bash", "0,0"]


def _paths(data: object, path: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [below for key, value in items for below in ((*path, key), *_paths(value, (*path, key)))]


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(SHOWN + CLEAN), st.data())
def test_a_manifest_of_any_form_is_no_fault(case: Path, data: st.DataObject) -> None:
    manifest = copy.deepcopy(yaml.safe_load(case.read_text()))
    for _ in range(data.draw(st.integers(1, 4))):
        paths = _paths(manifest)
        if not paths:
            break
        *above, last = data.draw(st.sampled_from(paths))
        part: Any = manifest
        for key in above:
            part = part[key]
        part[last] = copy.deepcopy(data.draw(st.sampled_from(ODD)))
    text = json.dumps(manifest).encode()
    findings, objects = audit(text, "odd.yaml")

    assert objects <= 1
    assert all(finding.location.line == 1 for finding in findings)


def test_a_program_without_arguments_is_no_fault() -> None:
    text = b"{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: a, command: [python]}]}}"

    assert audit(text, "pod.yaml") == ([], 1)


def test_a_mask_with_a_number_of_thousands_of_digits_is_beyond_the_count() -> None:
    text = (CASES / "mask-beyond-count" / "trap.yaml").read_text().replace('"2,3"', f'"{"9" * 5000}"')
    assert "9" * 5000 in text
    (finding,), _ = audit(text.encode(), "trap.yaml")
    assert finding.trap.id == "mask-beyond-count"


def test_a_long_number_among_devices_of_deepspeed_is_no_fault() -> None:
    text = (CASES / "deepspeed-sorts" / "trap.yaml").read_text()
    assert "worker-0:1,0" in text
    findings, _ = audit(text.replace("worker-0:1,0", f"worker-0:{'9' * 5000},0").encode(), "trap.yaml")
    assert "deepspeed-sorts" in [finding.trap.id for finding in findings]

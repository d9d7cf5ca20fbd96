"""K8SEL_CHECK beside a job's own expectation: it counts for this start, and never in silence."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from entrypoint.machines import Box, devices, script, uuid

SAID = "k8sel: check: {now} (K8SEL_CHECK overrides {job} of the job)\n"
WRONG = devices(0, count=4)  # of three


@pytest.mark.parametrize(
    ("job", "now", "status"),
    [
        ("enforce", "warn", 0),
        ("enforce", "off", 0),
        ("warn", "enforce", 78),
        ("off", "enforce", 78),
        ("off", "warn", 0),
    ],
)
def test_it_overrides_the_job_and_that_is_said(job: str, now: str, status: int, nvml_box: Box) -> None:
    end = nvml_box.start(expect={**WRONG, "check": job}, env={"K8SEL_CHECK": now})
    assert end.status == status
    assert SAID.format(now=now, job=job) in end.err
    if status == 0:
        assert end.receipt["check"] == now
        assert json.loads(end.env["K8SEL_EXPECT"]).get("check") == now  # what the ranks of mpirun get on any node


@pytest.mark.parametrize("given", ["", "warn"])
def test_it_says_nothing_where_it_changes_nothing(given: str, nvml_box: Box) -> None:
    end = nvml_box.start(expect={**WRONG, "check": "warn"}, env={"K8SEL_CHECK": given})
    assert end.status == 0
    assert "K8SEL_CHECK" not in end.err


def test_another_word_stops(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(0, count=3), env={"K8SEL_CHECK": "maybe"})
    assert (end.status, end.message) == (78, "k8sel: K8SEL_CHECK=maybe is none of enforce, warn, off\n")


def test_the_other_variables_by_hand_still_contradict(nvml_box: Box) -> None:
    end = nvml_box.start(expect=devices(0, count=3), env={"K8SEL_CHECK": "warn", "K8SEL_MEMORY": "1Gi"})
    assert end.message == "k8sel: K8SEL_EXPECT and K8SEL_MEMORY are both set: remove one or the other\n"


def test_alone_it_is_no_expectation(nvml_box: Box) -> None:
    end = nvml_box.start(env={"K8SEL_CHECK": "warn"})
    assert (end.status, end.message.startswith("k8sel: K8SEL_ACCELERATOR is not set")) == (78, True)


def test_nothing_is_said_to_be_checked_that_was_not(nvml_box: Box) -> None:
    asked = {"memory": 2**40, "product": ["NVIDIA-L4"], "sharedMemory": 2**40}
    end = nvml_box.start(expect={**WRONG, **asked}, env={"K8SEL_CHECK": "off"})
    assert (end.mask, end.receipt["notChecked"]) == ("0", ["devices", "product", "memory", "sharedMemory"])
    assert "; not checked: devices, product, memory, sharedMemory\n" in end.err


def test_the_gate_hands_it_to_the_real_mpirun(box: Box, tmp_path: Path) -> None:
    probe = script(tmp_path / "probe", """echo 'k8sel-report: {"node":"w-0","ok":false,"problems":["A"]}'""")
    expect = devices(0, launcher="mpirun", probe=[probe])
    assert box.start("gate", "--", "env", expect=expect).status == 78
    end = box.start("gate", "--", "env", expect=expect, env={"K8SEL_CHECK": "warn"})
    assert json.loads(end.env["K8SEL_EXPECT"])["check"] == "warn"
    assert "node w-0: A (check: warn, continuing)" in end.err


def test_a_rank_behind_it_does_not_say_it_again(nvml_box: Box) -> None:
    torchrun = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "TORCHELASTIC_RUN_ID": "x"}
    command = ("sh", "-c", 'exec "$@"', "sh")
    outer = nvml_box.start(*command, "env", expect=devices(0, count=3), env={"K8SEL_CHECK": "warn"})
    handed = {"K8SEL_EXPECT": outer.env["K8SEL_EXPECT"], "K8SEL_CHECK": "warn", "CUDA_VISIBLE_DEVICES": uuid(2)}
    inner = nvml_box.start("rank", "env", env={**torchrun, **handed})
    assert SAID.format(now="warn", job="enforce") in outer.err
    assert (inner.mask, "K8SEL_CHECK" in inner.err) == (uuid(2), False)


@pytest.mark.parametrize(("devices", "unchecked"), [([0], ["devices"]), ([], [])])
def test_only_what_was_asked_for_is_said_to_be_unchecked(devices: list[int], unchecked: list[str], box: Box) -> None:
    end = box.start(expect={"devices": devices, "check": "off"})
    assert (end.status, end.receipt["notChecked"]) == (0, unchecked)

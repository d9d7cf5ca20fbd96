"""A line, through `k8sel from` and back through `k8sel run --print`, does what it did."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest

from fromline.guides import LINES, REFUSED, Line
from k8sel import api
from k8sel.adopt.line import LineError, Options, convert
from k8sel.entrypoint.protocol import VARIABLE, parse
from k8sel.jobfile.load import load
from k8sel.machine import processes
from k8sel.planning.plan import JobPlan


def planned(text: str, door: str, nodes: int | None = None) -> JobPlan:
    made, _ = convert(text, Options())
    (job,) = load(made.encode(), "job.yaml")
    return api.plan(job, door, nodes=nodes)


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_guides_line_comes_back_with_the_same_effect(line: Line) -> None:
    plan = planned(line.text, "run", nodes=1)
    started = processes.command(plan, override_env=True, started=False, environ={})
    env = dict(started.env)
    expected = parse(env.pop(VARIABLE))

    assert started.argv == line.argv
    assert env == line.env
    assert plan.devices.mask_env == line.mask
    assert tuple(rank.devices for rank in plan.nodes[0].ranks) == line.sees
    assert [rank.rank for rank in plan.nodes[0].ranks] == list(range(len(line.sees)))
    assert expected.devices == line.sees[0]
    assert expected.order == line.order
    assert expected.threads_per_process == line.threads
    assert expected.backend == line.backend


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_guides_line_has_all_its_ranks_on_a_cluster(line: Line) -> None:
    plan = planned(line.text, "kubernetes")

    assert plan.world_size == (line.world_size or len(line.sees))
    assert plan.processes_per_node == len(line.sees)


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_what_is_different_is_said(line: Line) -> None:
    _, notes = convert(line.text, Options())
    said = "\n".join(map(str, notes))

    assert [words for words in line.remarks if words not in said] == []
    assert (": warning: " in said) == any("starts 1" in words or "stays in" in words for words in line.remarks)


@pytest.mark.parametrize("text", REFUSED)
def test_a_guides_line_that_starts_nothing_is_refused_with_the_reason(text: str) -> None:
    with pytest.raises(LineError) as refused:
        convert(text, Options())

    assert str(refused.value).startswith(REFUSED[text])


def test_the_command_line_goes_there_and_back() -> None:
    k8sel = [sys.executable, "-m", "k8sel"]
    line = LINES["order"]
    made = subprocess.run([*k8sel, "from", line.text], capture_output=True, text=True, check=True)
    shown = subprocess.run(
        [*k8sel, "run", "--print", "--override-env", "-q", "-"],
        input=made.stdout,
        capture_output=True,
        text=True,
        check=True,
    )
    words = shlex.split(shown.stdout)

    assert tuple(words[words.index("k8sel-entrypoint") :]) == line.argv

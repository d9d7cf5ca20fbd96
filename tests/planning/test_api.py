"""The pipeline as a whole: all problems with their places, warnings with theirs, and nothing heavy imported."""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import pytest

from k8sel import api
from k8sel.errors import Problem, SpecError
from k8sel.facts.platforms import Platform
from k8sel.jobfile import validate
from k8sel.jobfile.complete import CompleteJob
from planning import goldens

HEAVY = ("kubernetes", "docker", "jsonschema", "rich", "typer", "requests")
TEXT = """\
apiVersion: k8sel.dev/v1alpha1
kind: AcceleratedJob
metadata: {name: job}
spec:
  image: img
  command: [python, train.py]
  launcher: torchrun
  accelerator: {type: cuda, devices: [2, 0]}
"""


def load(text: str) -> api.Job:
    (job,) = api.load(text.encode(), "job.yaml")
    return job


def test_rendering_imports_no_client_library() -> None:
    file = goldens.CASES / "torchrun-order" / "job.yaml"
    code = (
        f"import sys; from k8sel import api\n"
        f"for job in api.load(open({str(file)!r}, 'rb').read(), 'x'): api.render(api.plan(job))\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout.strip() == "[]"


def test_a_warning_says_where() -> None:
    warnings = api.check(load(TEXT))

    assert str(warnings[1]).startswith("job.yaml:8:38: spec.accelerator.devices: warning: each node requests 3")


def test_a_problem_stops_the_plan_and_says_where() -> None:
    with pytest.raises(SpecError, match=r"job\.yaml:8:\d+: spec\.accelerator\."):
        api.plan(load(TEXT.replace("devices", "count: 1, devices")))


def test_a_namespaces_policy_stops_the_check_and_says_where() -> None:
    with pytest.raises(SpecError, match=r"job\.yaml:\d+:\d+: spec\.podSecurityContext\S*: "):
        api.check(load(TEXT), namespace_policy="restricted")


def test_another_number_of_nodes_can_be_planned() -> None:
    assert len(api.plan(load(TEXT), nodes=3).nodes) == 3


def test_the_entrypoints_config_map_is_applied_before_the_job() -> None:
    brought, job = api.render(api.plan(load(TEXT)))

    volumes = job["spec"]["pytorchReplicaSpecs"]["Master"]["template"]["spec"]["volumes"]
    assert brought["immutable"] is True
    assert {"name": "k8sel", "configMap": {"name": brought["metadata"]["name"]}} in volumes
    assert set(brought["data"]) == {"entrypoint"}
    assert set(brought["binaryData"]) == {"entrypoint.pyz"}


@pytest.mark.parametrize("mode", ["image", "none"])
def test_a_job_without_a_config_map_is_one_object(mode: str) -> None:
    (job,) = api.render(api.plan(load(TEXT + f"  entrypoint: {{mode: {mode}}}\n")))

    assert job["kind"] == "PyTorchJob"


def test_this_machine_is_one_node() -> None:
    job = load(TEXT + "  nodes: 2\n")

    with pytest.raises(SpecError, match=r"job\.yaml:9:10: spec\.nodes: invalid: this machine is one node"):
        api.plan(job, "run")
    assert len(api.plan(job, "run", nodes=1).nodes) == 1


def test_auto_is_what_this_machine_has(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("K8SEL_ROOT", str(tmp_path))

    assert api.plan(load(TEXT.replace("type: cuda, devices: [2, 0]", "type: auto")), "run").devices.type == "cpu"


@pytest.mark.parametrize("step", [api.check, api.plan])
@pytest.mark.parametrize("text", [TEXT, TEXT.replace("devices", "count: 1, devices")], ids=["good", "bad"])
def test_each_rule_looks_at_a_job_once(
    step: Callable[[api.Job], object], text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls = [0] * len(validate.RULES)

    def counted(index: int, file: CompleteJob, platform: Platform) -> Iterable[Problem]:
        calls[index] += 1
        return rules[index](file, platform)

    rules = validate.RULES
    monkeypatch.setattr(validate, "RULES", tuple(partial(counted, index) for index in range(len(rules))))
    with contextlib.suppress(SpecError):
        step(load(text))

    assert calls == [1] * len(rules)


def test_the_check_and_the_plan_warn_of_the_same() -> None:
    assert tuple(api.check(load(TEXT))) == api.plan(load(TEXT)).warnings

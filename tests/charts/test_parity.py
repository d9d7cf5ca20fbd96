"""Helm's door and k8sel's make the same objects of the same file."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings

from charts.job_files import job_files
from charts.rendering import Renderer, comparable, rendered
from cluster import machine
from k8sel import yamlio
from planning import goldens


@pytest.mark.parametrize("case", goldens.NAMES)
def test_helm_k8sel_and_the_golden_agree(case: str, renderer: Renderer) -> None:
    text = (goldens.CASES / case / "job.yaml").read_text()
    helm, k8sel = renderer.render(text), rendered(text)
    golden = list(yaml.safe_load_all(goldens.expected_file(case).read_text()))

    assert comparable(helm) == comparable(k8sel) == comparable(golden)


@settings(
    max_examples=2000 if machine.required() else 200,
    deadline=None,
    phases=[Phase.generate, Phase.shrink],  # the explanation of a difference takes a minute, and says little
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(job=job_files())
def test_helm_and_k8sel_agree_on_any_valid_file(job: dict[str, Any], renderer: Renderer) -> None:
    text = yamlio.dump([job])
    helm, k8sel = comparable(renderer.render(text)), comparable(rendered(text))

    assert helm == k8sel

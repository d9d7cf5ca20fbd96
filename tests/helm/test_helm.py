"""The real helm takes the chart, and a job file as its values."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import yaml
from planning import goldens

from helm.rendering import CHART, comparable, rendered
from k8sel.jobfile import yamlio

JOB = goldens.CASES / "torchrun-order" / "job.yaml"


def run(helm: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """A helm that has ended."""
    return subprocess.run([helm, *arguments], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("case", ["torchrun-order", "mpirun-intel-nonroot"])
def test_lint_finds_nothing(helm: Path, case: str) -> None:
    done = run(helm, "lint", "--strict", CHART, "-f", goldens.CASES / case / "job.yaml")

    assert (done.returncode, done.stderr) == (0, "")
    assert "WARNING" not in done.stdout
    assert "ERROR" not in done.stdout


def test_template_prints_what_render_prints(helm: Path) -> None:
    done = run(helm, "template", "release", CHART, "-f", JOB, "--skip-tests")
    objects = list(yaml.safe_load_all(done.stdout))

    assert comparable(objects) == comparable(rendered(JOB.read_text()))


def test_a_value_on_the_command_line_is_the_same_as_in_the_file(helm: Path) -> None:
    done = run(helm, "template", "release", CHART, "-f", JOB, "--skip-tests", "--set", "spec.nodes=3")
    text = yaml.safe_load(JOB.read_text())
    text["spec"]["nodes"] = 3

    assert comparable(list(yaml.safe_load_all(done.stdout))) == comparable(rendered(yamlio.dump([text])))


def test_a_name_that_makes_a_pods_too_long_is_refused_with_the_length_that_fits(helm: Path) -> None:
    nodes = ["--set", "metadata.name=null", "--set", "spec.nodes=102"]
    done = run(helm, "template", "a" * 53, CHART, "-f", JOB, *nodes)

    assert done.returncode != 0
    assert "has 64 characters, but at most 63 are allowed. Hint: use at most 52 characters" in done.stderr


def test_a_release_name_that_is_no_jobs_name_is_refused(helm: Path) -> None:
    done = run(helm, "template", "1.a", CHART, "-f", JOB, "--set", "metadata.name=null")

    assert done.returncode != 0
    assert 'metadata.name: invalid: "1.a"' in done.stderr


def test_the_pod_of_helm_test_runs_once(helm: Path) -> None:
    done = run(helm, "template", "release", CHART, "-f", JOB, "--show-only", "templates/tests/check.yaml")

    assert yaml.safe_load(done.stdout)["spec"]["restartPolicy"] == "Never"

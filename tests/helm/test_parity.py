"""Helm's door and k8sel's make the same objects of the same file."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, Phase, given, settings
from planning import goldens

from cluster import machine
from helm.job_files import job_files
from helm.rendering import CHART, Renderer, comparable, rendered
from k8sel.jobfile import yamlio

PARTS = 4  # of the drawn files, for as many processes
PYTORCH_JOB = (goldens.CASES / "torchrun-order" / "job.yaml").read_text()
MPI_JOB = (goldens.CASES / "mpirun-openmpi" / "job.yaml").read_text()


@pytest.mark.parametrize("case", goldens.NAMES)
def test_helm_k8sel_and_the_golden_agree(case: str, renderer: Renderer) -> None:
    text = (goldens.CASES / case / "job.yaml").read_text()
    helm, k8sel = renderer.render(text), rendered(text)
    golden = list(yaml.safe_load_all(goldens.expected_file(case).read_text()))

    assert comparable(helm) == comparable(k8sel) == comparable(golden)


@pytest.mark.parametrize("policy", [{}, {"ttlSecondsAfterFinished": 60}, {"cleanPodPolicy": "All", "backoffLimit": 2}])
@pytest.mark.parametrize("text", [MPI_JOB, PYTORCH_JOB], ids=["MPIJob", "PyTorchJob"])
def test_the_hash_leaves_out_what_no_pod_is_made_of(text: str, policy: dict[str, Any], renderer: Renderer) -> None:
    job = yaml.safe_load(text)
    job["metadata"]["annotations"] = {"who": "me"}
    job["spec"]["policy"] = policy
    changed = yamlio.dump([job])

    assert comparable(renderer.render(changed)) == comparable(rendered(changed))


@pytest.mark.parametrize("part", range(PARTS))
@settings(
    max_examples=(2000 if machine.required() else 200) // PARTS,
    phases=[Phase.generate, Phase.shrink],  # to explain a difference takes a minute more, and says little
    suppress_health_check=[HealthCheck.too_slow],
)
@given(job=job_files())
def test_helm_and_k8sel_agree_on_any_valid_file(part: int, job: dict[str, Any], renderer: Renderer) -> None:
    text = yamlio.dump([job])
    helm, k8sel = comparable(renderer.render(text)), comparable(rendered(text))

    assert helm == k8sel


@pytest.mark.parametrize(
    ("template", "text", "other"),
    [
        ("_pod.tpl", '"enableServiceLinks" false', '"enableServiceLinks" true'),
        ("_mpi.tpl", '"MASTER_ADDR"', '"MASTER_HOST"'),
        ("_env.tpl", '"jobFile" .sha256', '"jobFile" .name'),
        ("_configmap.tpl", "immutable: true", "immutable: false"),
    ],
)
def test_a_changed_template_is_a_difference(
    template: str, text: str, other: str, tmp_path: Path, chart_render: None
) -> None:
    changed = shutil.copytree(CHART, tmp_path / "k8sel")
    file = changed / "templates" / template
    assert text in file.read_text()
    file.write_text(file.read_text().replace(text, other))

    with Renderer(changed) as renderer:
        assert comparable(renderer.render(MPI_JOB)) != comparable(rendered(MPI_JOB))


@pytest.mark.parametrize(
    "rights",
    [
        {"privileged": True},
        {"capabilities": {"add": ["ALL"]}},
        {"capabilities": {"add": ["SYS_NICE"]}},
        {"seccompProfile": {"type": "Unconfined"}},
    ],
    ids=str,
)
def test_a_binding_that_the_container_may_do_is_the_same_job(rights: dict[str, Any], renderer: Renderer) -> None:
    job = yaml.safe_load(MPI_JOB)
    job["spec"] |= {"mpi": {"implementation": "MPICH", "binding": "socket"}, "securityContext": rights}
    text = yamlio.dump([job])

    assert comparable(renderer.render(text)) == comparable(rendered(text))


@pytest.mark.parametrize("mode", ["configMap", "none"])
def test_variables_that_differ_from_pod_to_pod_are_the_same_job(mode: str, renderer: Renderer) -> None:
    job = yaml.safe_load(MPI_JOB)
    own = {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    variables = [own, {"name": "SAME", "value": "$$(IP)"}, {"name": "URL", "value": "tcp://$(IP)"}]
    job["spec"] |= {"env": variables, "entrypoint": {"mode": mode}}
    text = yamlio.dump([job])

    assert comparable(renderer.render(text)) == comparable(rendered(text))


def test_a_job_without_a_name_has_the_releases(renderer: Renderer) -> None:
    named = yaml.safe_load(MPI_JOB)
    name = named["metadata"].pop("name")

    assert comparable(renderer.render(yamlio.dump([named]), release=name)) == comparable(rendered(MPI_JOB))


def test_a_file_without_its_kind_is_the_same_job(renderer: Renderer) -> None:
    values = {key: value for key, value in yaml.safe_load(MPI_JOB).items() if key in ("metadata", "spec")}

    assert comparable(renderer.render(yamlio.dump([{**values, "global": {}}]))) == comparable(rendered(MPI_JOB))

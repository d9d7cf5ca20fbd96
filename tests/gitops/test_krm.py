"""`k8sel render --krm` as an orchestrator meets it: a list in, a list out, findings with their places."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from planning import goldens

from k8sel import api
from k8sel.jobfile import yamlio

CASES = ["torchrun-order", "mpirun-intel-nonroot", "torchrun-kueue"]
OTHER = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "other"}, "data": {"rate": "1e-3", "on": "off"}}
PATH = {"internal.config.kubernetes.io/path": "train/job.yaml", "internal.config.kubernetes.io/index": "1"}
Object = dict[str, Any]


def function(*args: str, **given: object) -> subprocess.CompletedProcess[str]:
    """The function, given a ResourceList with these fields."""
    whole = {"apiVersion": "config.kubernetes.io/v1", "kind": "ResourceList", **given}
    return subprocess.run(
        [sys.executable, "-m", "k8sel", "render", "--krm", *args, "-"],
        input=json.dumps(whole),
        capture_output=True,
        text=True,
        check=False,
    )


def case(name: str, **annotations: str) -> Object:
    data: Object = yaml.safe_load((goldens.CASES / name / "job.yaml").read_text())
    if annotations:
        data["metadata"].setdefault("annotations", {}).update(annotations)
    return data


def objects(name: str) -> list[Object]:
    return api.render(goldens.plan(name))


@pytest.mark.parametrize("name", CASES)
def test_a_job_is_replaced_by_what_render_prints_for_its_file(name: str) -> None:
    done = function("-q", items=[OTHER, case(name, **PATH), {**OTHER, "kind": "Secret"}])
    expected = [OTHER, *objects(name), {**OTHER, "kind": "Secret"}]
    assert (done.returncode, done.stderr) == (0, "")
    assert yaml.safe_load(done.stdout)["items"] == expected


def test_a_job_as_the_functions_own_configuration_is_put_last() -> None:
    config = case("torchrun-order", **{"config.kubernetes.io/function": "exec: {path: k8sel}"})
    done = function(functionConfig=config, items=[OTHER])
    found = yaml.safe_load(done.stdout)
    assert found["items"] == [OTHER, *objects("torchrun-order")]
    assert found["functionConfig"] == config


def test_what_is_not_for_the_cluster_stays_as_it_is() -> None:
    local = case("torchrun-order", **{"config.kubernetes.io/local-config": "true"})
    assert yaml.safe_load(function(items=[local]).stdout)["items"] == [local]


def test_another_projects_kind_of_that_name_is_none_of_k8sels() -> None:
    theirs = {"apiVersion": "example.com/v1", "kind": "AcceleratedJob", "metadata": {"name": "a"}}
    assert yaml.safe_load(function(items=[theirs]).stdout)["items"] == [theirs]


def test_the_same_list_gives_the_same_bytes() -> None:
    items = [case(name) for name in CASES]
    assert function(items=items).stdout == function(items=items).stdout
    assert json.loads(function("-o", "json", items=items).stdout) == yaml.safe_load(function(items=items).stdout)


def test_an_index_of_thousands_of_digits_is_left_out() -> None:
    wrong = case("torchrun-order", **{**PATH, "internal.config.kubernetes.io/index": "9" * 5000})
    wrong["spec"]["image"] = "--volume=/:/host"
    done = function(items=[wrong])
    (result,) = yaml.safe_load(done.stdout)["results"]
    assert (done.returncode, result["file"]) == (1, {"path": "train/job.yaml"})


def test_an_error_is_a_result_with_file_and_field_and_nothing_is_replaced() -> None:
    wrong = case("torchrun-order", **PATH)
    wrong["spec"]["accelerator"]["devices"] = [9]
    items = [case("mpirun-openmpi"), wrong]
    done = function(items=items)
    found = yaml.safe_load(done.stdout)
    (result,) = [each for each in found["results"] if each["severity"] == "error"]
    assert done.returncode == 1
    assert found["items"] == items
    assert result["message"].startswith("invalid: count is 4, but device 9 needs a count above 9")
    assert result["field"] == {"path": "spec.accelerator.devices[0]"}
    assert result["file"] == {"path": "train/job.yaml", "index": 1}
    assert result["resourceRef"]["kind"] == "AcceleratedJob"
    assert result["resourceRef"]["name"] == wrong["metadata"]["name"]
    assert f"train/job.yaml: AcceleratedJob {wrong['metadata']['name']}: spec.accelerator.devices[0]: " in done.stderr


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"apiVersion": "k8sel.dev/v9"}, "k8sel.dev/v1alpha1"),
        ({"metadata": None}, "metadata"),
        ({"metadata": {"name": "a", "annotations": ["b"]}}, "metadata.annotations"),
        ({"spec": "none"}, "spec"),
    ],
)
def test_a_job_of_another_shape_is_an_error_too(change: Object, said: str) -> None:
    done = function(items=[{**case("torchrun-order"), **change}])
    assert done.returncode == 1
    assert said in yaml.safe_load(done.stdout)["results"][0]["message"] + done.stderr
    assert "Traceback" not in done.stderr


def test_a_warning_is_a_result_and_no_failure() -> None:
    done = function(items=[case("torchrun-order")])
    (result,) = yaml.safe_load(done.stdout)["results"]
    assert (done.returncode, result["severity"]) == (0, "warning")
    assert result["field"] == {"path": "spec.accelerator.devices"}
    assert "warning: each node requests" in done.stderr
    assert function("-q", items=[case("torchrun-order")]).stderr == ""


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"kind": "Pod"}, "this is not a ResourceList"),
        ({"items": ["a"]}, "items: invalid: expected a list of objects"),
        ({"items": {"a": 1}}, "items: invalid: expected a list of objects"),
    ],
)
def test_what_is_no_resource_list_is_refused(given: Object, said: str) -> None:
    done = function(**given)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr


def test_an_empty_list_stays_one() -> None:
    assert yaml.safe_load(function().stdout)["items"] == []


def test_a_list_may_be_larger_than_a_job_file() -> None:
    large = {**OTHER, "data": {f"k{number}": "x" * 100 for number in range(12_000)}}
    assert yaml.safe_load(function(items=[large]).stdout)["items"] == [large]


def test_files_beside_the_list_are_refused(tmp_path: Path) -> None:
    file = tmp_path / "list.yaml"
    file.write_text(yamlio.dump([{"kind": "ResourceList"}]))
    done = function(str(file))
    assert done.returncode == 2
    assert "--krm takes one ResourceList, and 2 files are given" in done.stderr

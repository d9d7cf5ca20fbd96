"""`import k8sel`: the library as a program sees it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from planning import goldens

import k8sel
from k8sel import api

TEXT = b"""\
apiVersion: k8sel.dev/v1alpha1
kind: AcceleratedJob
metadata: {name: job}
spec:
  image: img
  command: [python, train.py]
  launcher: torchrun
  accelerator: {type: cuda, devices: [2, 0]}
"""
DATA: dict[str, Any] = {
    "apiVersion": "k8sel.dev/v1alpha1",
    "kind": "AcceleratedJob",
    "metadata": {"name": "job"},
    "spec": {
        "image": "img",
        "command": ["python", "train.py"],
        "launcher": "torchrun",
        "accelerator": {"type": "cuda", "devices": [2, 0]},
    },
}


def data(**spec: object) -> dict[str, Any]:
    return {**DATA, "spec": {**DATA["spec"], **spec}}


def test_the_package_offers_the_librarys_names() -> None:
    assert sorted(k8sel.__all__) == sorted(api.__all__)
    assert {name: getattr(k8sel, name) for name in k8sel.__all__} == {name: getattr(api, name) for name in api.__all__}
    assert set(k8sel.__all__) <= set(dir(k8sel))


def test_another_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match=r"^module 'k8sel' has no attribute 'plans'$"):
        _ = k8sel.plans  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing_else() -> None:
    code = "import sys; before = set(sys.modules); import k8sel; print(sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)

    assert done.stdout == "['k8sel']\n"


def test_a_text_a_path_and_a_mapping_are_the_same_job(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(TEXT)
    objects = [
        [k8sel.render(k8sel.plan(job)) for job in k8sel.load(source)] for source in (TEXT, path, str(path), DATA)
    ]

    assert objects[1:] == [objects[0]] * 3


def test_a_rendering_is_what_the_command_prints() -> None:
    case = goldens.CASES / "torchrun-order"
    (job,) = k8sel.load(case / "job.yaml")

    assert k8sel.render(k8sel.plan(job)) == api.render(goldens.plan("torchrun-order"))


def test_a_file_may_hold_several_jobs() -> None:
    jobs = k8sel.load(TEXT + b"---\n" + TEXT.replace(b"name: job", b"name: other"))

    assert [k8sel.plan(job).name for job in jobs] == ["job", "other"]


@pytest.mark.parametrize("kind", [str, Path])
def test_a_problem_of_a_file_names_the_file(kind: type[str | Path], tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_bytes(TEXT.replace(b"image", b"imag"))

    with pytest.raises(k8sel.SpecError) as stopped:
        k8sel.load(kind(path))
    (problem,) = [each for each in stopped.value.problems if "imag" in each.path]
    assert str(problem.location) == f"{path}:5:3"


def test_a_problem_of_a_text_begins_with_its_name() -> None:
    wrong = TEXT.replace(b"image", b"imag")

    with pytest.raises(k8sel.SpecError, match=r"^<text>:5:3: spec\.imag: unknown field"):
        k8sel.load(wrong)
    with pytest.raises(k8sel.SpecError, match=r"^form:5:3: spec\.imag: unknown field"):
        k8sel.load(wrong, name="form")


def test_a_mappings_problems_have_no_place() -> None:
    with pytest.raises(k8sel.SpecError, match=r"^spec\.imag: unknown field"):
        k8sel.load(data(imag="x"))
    (job,) = k8sel.load(data(accelerator={"type": "cuda", "count": 1, "devices": [2, 0]}))
    with pytest.raises(k8sel.SpecError) as stopped:
        k8sel.plan(job)
    assert [problem.location for problem in stopped.value.problems] == [None] * len(stopped.value.problems)
    assert str(stopped.value).startswith("spec.accelerator.")


def test_a_mappings_warnings_have_no_place() -> None:
    (job,) = k8sel.load(DATA)

    assert {problem.location for problem in k8sel.check(job)} == {None}


def test_a_later_change_of_the_mapping_changes_no_job() -> None:
    mine = data(command=["python", "train.py"])
    (job,) = k8sel.load(mine)
    mine["spec"]["command"].append("--more")

    assert job.file.spec.command == ("python", "train.py")


@pytest.mark.parametrize("text", ["a\x7fb", "\ufeff", "\u2028", "\U0001f600", "1e-3", "y", "k" * 2000])
def test_a_mappings_strings_arrive_as_they_are(text: str) -> None:
    (job,) = k8sel.load(data(command=["echo", text]))

    assert job.file.spec.command == ("echo", text)


@pytest.mark.parametrize(
    ("value", "error"), [({1, 2}, TypeError), (object(), TypeError), (b"x", TypeError), (float("nan"), ValueError)]
)
def test_a_mapping_holds_what_json_has(value: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        k8sel.load(data(command=value))


def test_a_file_that_is_not_there_is_pythons_own_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        k8sel.load(tmp_path / "job.yaml")


@pytest.mark.parametrize("step", [k8sel.check, k8sel.plan])
def test_an_unknown_platform_is_refused(step: Any) -> None:  # noqa: ANN401
    (job,) = k8sel.load(DATA)

    with pytest.raises(k8sel.SpecError) as stopped:
        step(job, platform="dokcer")
    assert str(stopped.value) == (
        'platform: not supported: "dokcer" is not one of kubernetes, docker, run. Hint: did you mean docker?'
    )


@pytest.mark.parametrize("nodes", [0, -1])
def test_a_plan_has_a_node(nodes: int) -> None:
    (job,) = k8sel.load(DATA)

    with pytest.raises(k8sel.SpecError, match=rf"^nodes: invalid: a job has at least one node, not {nodes}\.$"):
        k8sel.plan(job, nodes=nodes)


def test_a_plan_is_made_for_a_platform() -> None:
    (job,) = k8sel.load(DATA)

    assert k8sel.plan(job).devices.count == 3
    assert k8sel.plan(job, platform="docker").devices.exposed == (0, 2)


def test_the_path_may_be_any_that_python_opens(tmp_path: Path) -> None:
    class Mine(os.PathLike[str]):
        def __fspath__(self) -> str:
            return str(tmp_path / "job.yaml")

    (tmp_path / "job.yaml").write_bytes(TEXT)
    (job,) = k8sel.load(Mine())

    assert str(k8sel.check(job)[0].location).startswith(f"{tmp_path}/job.yaml:")

"""The file that `k8sel init` writes is a good one, whatever it is asked for."""

from __future__ import annotations

import re

import pytest

from k8sel.errors import SpecError
from k8sel.facts.accelerators import ROWS
from k8sel.facts.launchers import LAUNCHERS
from k8sel.facts.platforms import PLATFORMS
from k8sel.jobfile.defaults import default
from k8sel.jobfile.load import load
from k8sel.jobfile.template import starter
from k8sel.jobfile.validate import validate


@pytest.mark.parametrize("accelerator", ROWS)
@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_it_is_valid_and_has_no_warning(launcher: str, accelerator: str) -> None:
    platform = "kubernetes" if ROWS[accelerator].in_container else "run"
    (job,) = load(starter(launcher, accelerator).encode(), "job.yaml")
    assert validate(default(job.file, PLATFORMS[platform]), PLATFORMS[platform]) == []
    assert (job.file.spec.launcher, job.file.spec.accelerator.type) == (launcher, accelerator)


@pytest.mark.parametrize("accelerator", ROWS)
def test_it_is_valid_with_its_comments_taken_as_fields(accelerator: str) -> None:
    platform = "kubernetes" if ROWS[accelerator].in_container else "run"
    text = re.sub(r"(?m)^( *)# (?=[a-z-]+\w*:| +\S+:|  - )", r"\1", starter("torchrun", accelerator))
    text = re.sub(r"(?m)^( *)#   ", r"\1  ", text).replace("count: 1 ", "count: 3 ")
    text = text.replace("processesPerNode: 2 ", "processesPerNode: 6 ")  # two for each device
    (job,) = load(text.encode(), "job.yaml")
    problems = validate(default(job.file, PLATFORMS[platform]), PLATFORMS[platform])
    assert [str(problem) for problem in problems] == []
    assert job.file.spec.env


def test_an_unknown_word_is_named_with_the_nearest() -> None:
    with pytest.raises(SpecError) as raised:
        starter("torchrn", "cdua")
    assert str(raised.value) == (
        f'--launcher: not supported: "torchrn" is not one of {", ".join(LAUNCHERS)}. '
        "Hint: did you mean torchrun?\n"
        f'--accelerator: not supported: "cdua" is not one of {", ".join(ROWS)}. '
        "Hint: did you mean cuda?"
    )

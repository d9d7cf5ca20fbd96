"""The rules as a whole, and the parts that several of them use."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from k8sel.errors import SpecError
from k8sel.facts.kinds import JOB_KINDS
from k8sel.jobfile import rules
from k8sel.jobfile.defaults import default
from k8sel.jobfile.load import load
from k8sel.jobfile.quantity import amount
from k8sel.jobfile.rules.common import Rule
from k8sel.jobfile.validate import RULES, errors, namespace_policy, validate

JOB = """\
apiVersion: k8sel.dev/v1alpha1
kind: AcceleratedJob
metadata: {{name: {name}}}
spec:
  image: registry.example/train:1
  command: [python, train.py]
  launcher: {launcher}
  nodes: {nodes}
  accelerator: {{type: cuda}}
"""

QUANTITIES: dict[float | str, Fraction | None] = {
    8: Fraction(8),
    0.5: Fraction(1, 2),
    "8": Fraction(8),
    "500m": Fraction(1, 2),
    "16Gi": Fraction(16 * 2**30),
    "1.5Ki": Fraction(1536),
    "2G": Fraction(2 * 10**9),
    "1k": Fraction(1000),
    "1e3": Fraction(1000),
    "1E-3": Fraction(1, 1000),
    "1E": Fraction(10**18),
    "1Ei": Fraction(2**60),
    ".5": Fraction(1, 2),
    "5.": Fraction(5),
    "+1": Fraction(1),
    "-1Mi": Fraction(-(2**20)),
    "100n": Fraction(1, 10**7),
    1e21: Fraction(10**21),
    "": None,
    ".": None,
    "Gi": None,
    "1 Gi": None,
    "1GB": None,
    "1gi": None,
    "1K": None,
    "0x10": None,
    "1e": None,
    "1e99999": None,
    "1,5": None,
    "१": None,
    "1\n": None,
    "9" * 100: None,
}


@pytest.mark.parametrize(("text", "number"), QUANTITIES.items())
def test_quantities_are_read_as_kubernetes_reads_them(text: float | str, number: Fraction | None) -> None:
    assert amount(text) == number


def test_every_rule_is_registered_and_says_what_it_is_for() -> None:
    found: list[Rule] = []
    for module in pkgutil.iter_modules(rules.__path__, f"{rules.__name__}."):
        members = inspect.getmembers(importlib.import_module(module.name), inspect.isfunction)
        found += [
            member
            for name, member in members
            if not name.startswith("_") and list(inspect.signature(member).parameters) == ["job", "platform"]
        ]
    assert set(found) == set(RULES)
    assert len(set(RULES)) == len(RULES)
    assert all(inspect.getdoc(rule) for rule in RULES)


@given(
    st.from_regex(r"[a-z]([-a-z0-9]{40,61}[a-z0-9])?", fullmatch=True),
    st.sampled_from(["torchrun", "mpirun"]),
    st.integers(1, 120),
)
def test_every_pod_of_a_valid_job_has_a_valid_host_name(name: str, launcher: str, nodes: int) -> None:
    (job,) = load(JOB.format(name=f'"{name}"', launcher=launcher, nodes=nodes).encode(), "job.yaml")
    names = JOB_KINDS[default(job.file).spec.target].pods(name, nodes)
    fit = all(re.fullmatch(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?", pod) for pod in names)
    assert fit == (errors(validate(default(job.file))) == [])


def test_a_valid_job_is_judged_alike_by_every_level_that_allows_it() -> None:
    (job,) = load(JOB.format(name="a", launcher="torchrun", nodes=1).encode(), "job.yaml")
    assert namespace_policy(default(job.file), "privileged") == []
    assert namespace_policy(default(job.file), "baseline") == []
    assert len(namespace_policy(default(job.file), "restricted")) == 1


def test_an_unknown_level_is_refused() -> None:
    (job,) = load(JOB.format(name="a", launcher="torchrun", nodes=1).encode(), "job.yaml")
    with pytest.raises(SpecError, match='"strict" is not one of privileged, baseline, restricted'):
        namespace_policy(default(job.file), "strict")

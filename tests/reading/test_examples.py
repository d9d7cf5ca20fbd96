"""Every example is a good job file, fits the published schema, and says in two lines what it shows."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from k8sel.facts.kinds import JOB_KINDS
from k8sel.facts.platforms import PLATFORMS
from k8sel.jobfile import canonical
from k8sel.jobfile.defaults import default
from k8sel.jobfile.load import Job, load
from k8sel.jobfile.schema import schema
from k8sel.jobfile.validate import errors, namespace_policy, validate
from k8sel.jobfile.yamlio import dump, parse

KIND = JOB_KINDS["PyTorchJob"]
ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.yaml"))


def hashed(job: Job) -> str:
    return canonical.sha256_of_pods(job.document.data, KIND)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_is_valid(path: Path) -> None:
    for job in load(path.read_bytes(), path.name):
        for platform in ("kubernetes", "docker", "run"):
            if platform == "kubernetes" or (job.file.spec.nodes or 1) == 1:
                assert errors(validate(default(job.file, PLATFORMS[platform]), PLATFORMS[platform])) == []


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_it_says_what_it_shows_and_fits_the_schema(path: Path) -> None:
    assert [line[:2] for line in path.read_text().splitlines()[:3]] == ["# ", "# ", "ap"]
    for document in parse(path.read_bytes(), path.name):
        jsonschema.Draft202012Validator(schema()).validate(document.data)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_order_and_comments_do_not_change_its_sha256(path: Path) -> None:
    (job,) = load(path.read_bytes(), path.name)
    turned = dump([dict(reversed(job.document.data.items()))])
    assert hashed(load(turned.encode(), "turned")[0]) == hashed(job)


def test_the_restricted_example_passes_the_restricted_level() -> None:
    (job,) = load((ROOT / "examples" / "cpu-restricted.yaml").read_bytes(), "x")
    assert namespace_policy(default(job.file), "restricted") == []


def test_the_schema_is_itself_valid_and_the_committed_copy_is_current() -> None:
    jsonschema.Draft202012Validator.check_schema(schema())
    committed = (ROOT / "docs" / "job.schema.json").read_text()
    made = json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"
    assert committed == made, "write it anew: python docs/generate.py"


def test_the_schema_is_closed_and_described_throughout() -> None:
    for name, part in schema()["$defs"].items():
        assert part["additionalProperties"] is False, name
        for key, field in part["properties"].items():
            assert field["title"], (name, key)
            assert field["description"], (name, key)
            assert {"type": "null"} not in field.get("anyOf", ()), (name, key)

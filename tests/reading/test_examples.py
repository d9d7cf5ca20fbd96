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


GALLERY = sorted((ROOT / "manifests").glob("*/job.yaml"))
# Why a job is root. The group of the device nodes: https://github.com/ROCm/k8s-device-plugin/issues/39
_GROUP = "supplementalGroups would need the host's number of the group render"
_SSHD = "sshd and ssh need a user of the image: mpi-intel-user shows such an image"
AS_ROOT = {
    **dict.fromkeys(("examples/xpu-reversed", "manifests/intel-xpu", "manifests/amd"), _GROUP),
    **dict.fromkeys(("examples/hpu", "manifests/gaudi"), "no source says who may open the modules' device nodes"),
    **dict.fromkeys(("examples/mpi", "manifests/mpi-on-cpu"), _SSHD),
}


def test_every_example_that_can_is_not_root() -> None:
    """The level restricted refuses the others only for the operator's init container, which no job file can change."""
    named = {f"examples/{path.stem}": path for path in EXAMPLES} | {
        f"manifests/{path.parent.name}": path for path in GALLERY
    }
    refused = {
        name: sorted({".".join(map(str, each.path)) for each in namespace_policy(default(job.file), "restricted")})
        for name, path in named.items()
        for job in load(path.read_bytes(), path.name)
    }
    assert {name for name, paths in refused.items() if "spec.podSecurityContext" in paths} == set(AS_ROOT)
    assert {path for name, paths in refused.items() if name not in AS_ROOT for path in paths} == {"spec.nodes"}
    assert len([name for name, paths in refused.items() if not paths]) == 10


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

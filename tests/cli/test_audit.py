"""`k8sel audit`: traps in manifests, for people and for programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import jsonschema

AUDIT = Path(__file__).parents[1] / "audit"
CASES = AUDIT / "cases"
SCHEMA = json.loads((AUDIT / "sarif.json").read_text())
TRAP = CASES / "mask-twice" / "trap.yaml"
CLEAN = CASES / "mask-twice" / "clean.yaml"


def audit(*args: str | Path, text: str | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "k8sel", "audit", *map(str, args)]
    return subprocess.run(command, input=text, capture_output=True, text=True, check=False)


def test_a_trap_is_a_paragraph_and_status_1() -> None:
    result = audit(TRAP, CLEAN)

    assert result.returncode == 1
    assert result.stdout.split("\n") == [
        f"{TRAP}:14:7: mask-twice: CUDA_VISIBLE_DEVICES=1,1 names a device twice (Pod/try-out)",
        "    then: the meaning is undefined; torch counts no device at all",
        "    fix:  name each device once",
        "    from: pytorch/pytorch torch/cuda/__init__.py (_parse_visible_devices)",
        "",
    ]
    assert result.stderr == "2 objects checked, 1 trap\n"


def test_a_clean_manifest_is_status_0() -> None:
    result = audit("-q", "-", text=CLEAN.read_text())

    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")


def test_nothing_to_look_at_is_said() -> None:
    result = audit("-", text="kind: Service\n")

    assert (result.returncode, result.stdout) == (0, "")
    kinds = "no PyTorchJob, MPIJob, Job, Pod found"
    assert result.stderr == f"{kinds}: nothing was checked (use `k8sel validate` for job files)\n"


def test_json_has_every_field() -> None:
    (finding,) = json.loads(audit("-o", "json", TRAP).stdout)

    assert (finding["id"], finding["file"], finding["line"], finding["column"]) == ("mask-twice", str(TRAP), 14, 7)
    assert (finding["object"], finding["field"]) == ("Pod/try-out", "spec.containers[0].env[1]")
    assert sorted(finding) == sorted(
        ["id", "file", "line", "column", "object", "field", "found", "consequence", "fix", "source"]
    )


def test_sarif_is_as_its_standard_wants_it() -> None:
    files = sorted(CASES.glob("*/trap.yaml"))
    made = json.loads(audit("-o", "sarif", *files).stdout)
    jsonschema.validate(made, SCHEMA)
    (run,) = made["runs"]
    rules = [rule["id"] for rule in run["tool"]["driver"]["rules"]]

    assert sorted(rules) == sorted(file.parent.name for file in files)
    assert [rules[result["ruleIndex"]] for result in run["results"]] == [result["ruleId"] for result in run["results"]]
    assert {result["ruleId"] for result in run["results"]} == set(rules)


def test_sarif_of_nothing_is_a_run_without_results() -> None:
    made = json.loads(audit("-o", "sarif", "-", text=CLEAN.read_text()).stdout)
    jsonschema.validate(made, SCHEMA)

    assert made["runs"][0]["results"] == []


def test_wrong_yaml_is_status_2_and_says_where() -> None:
    result = audit("-", text="kind: Pod\nkind: Job\n")

    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("<stdin>:2:1: ")

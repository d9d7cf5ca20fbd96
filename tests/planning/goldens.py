"""The cases: a job file each, and the objects that it is to become.

Of the entrypoint's ConfigMap, the goldens have all but the content: its script, its archive and the hash of both in its
name change with every line of the entrypoint, and tests/entrypoint looks at them. Stand-ins take their place here.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from k8sel import api
from k8sel.jobfile import yamlio
from k8sel.jobfile.load import Job
from k8sel.planning.plan import JobPlan

CASES = Path(__file__).parent.parent / "cases"
NAMES = sorted(folder.name for folder in CASES.iterdir())

_HASH = re.compile(r"(?<=-k8sel-)[0-9a-f]{10}\b")


def job(case: str) -> Job:
    """The job file of ``case``."""
    file = CASES / case / "job.yaml"
    (loaded,) = api.load(file.read_bytes(), f"tests/cases/{case}/job.yaml")
    return loaded


def plan(case: str) -> JobPlan:
    """The plan of ``case``."""
    return api.plan(job(case))


def expected_file(case: str) -> Path:
    """The golden of ``case``."""
    return CASES / case / "expected.yaml"


def actual(case: str) -> str:
    """Returns the present rendering of ``case`` below its warnings, with the stand-ins in it."""
    job_plan = plan(case)
    warnings = "".join(f"# {warning}\n" for warning in job_plan.warnings)
    return warnings + yamlio.dump([with_stand_ins(item) for item in api.render(job_plan)])


def with_stand_ins(item: dict[str, Any]) -> dict[str, Any]:
    """``item`` with what depends on the entrypoint's own text replaced."""
    replaced: dict[str, Any] = json.loads(_HASH.sub("0123456789", json.dumps(item)))
    if replaced["kind"] == "ConfigMap":
        for part in ("data", "binaryData"):
            replaced[part] = dict.fromkeys(replaced[part], "(k8sel's entrypoint)")
    return replaced

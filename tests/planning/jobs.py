"""Job files made in a test, planned without being written down."""

from __future__ import annotations

from typing import Any

from k8sel.emit import TARGETS
from k8sel.facts.platforms import PLATFORMS
from k8sel.jobfile.defaults import default
from k8sel.jobfile.spec import JobFile, decode
from k8sel.planning import planner
from k8sel.planning.plan import JobPlan


def job(accelerator: dict[str, Any], spec: dict[str, object]) -> JobFile:
    """A job file, as the user would write it."""
    fields = {"image": "img", "command": ["python", "train.py"], "launcher": "torchrun", **spec}
    data = {"apiVersion": "k8sel.dev/v1alpha1", "kind": "AcceleratedJob", "metadata": {"name": "job"}}
    return decode({**data, "spec": {**fields, "accelerator": accelerator}})


def plan(accelerator: dict[str, Any], platform: str = "kubernetes", **spec: object) -> JobPlan:
    """Its plan."""
    return planner.plan(
        default(job(accelerator, spec), PLATFORMS[platform]), sha256="0" * 64, platform=PLATFORMS[platform]
    )


def emit(accelerator: dict[str, Any], **spec: object) -> dict[str, Any]:
    """Its object."""
    job_plan = plan(accelerator, "kubernetes", **spec)
    return TARGETS[job_plan.target](job_plan, "entrypoint-map")


def container(replica: dict[str, Any]) -> dict[str, Any]:
    """The one container of a replica."""
    (only,) = replica["template"]["spec"]["containers"]
    found: dict[str, Any] = only
    return found


def variables(of_container: dict[str, Any]) -> dict[str, str]:
    """Its variables with a value."""
    return {entry["name"]: entry["value"] for entry in of_container.get("env", ()) if "value" in entry}

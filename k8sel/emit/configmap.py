"""The ConfigMap that mounts the entrypoint into a job's containers: each job has its own, which is immutable."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from typing import Any

from k8sel.bundle import files
from k8sel.jobfile.canonical import sha256
from k8sel.planning.plan import JobPlan


@cache
def _content() -> tuple[str, str, str]:
    """The script, the archive in base64 and their hash. They are the same for every job: k8sel builds them once."""
    script, archive = files.script(), files.archive()
    return script, b64encode(archive).decode(), sha256(script.encode() + b"\0" + archive).hexdigest()


def emit(plan: JobPlan) -> dict[str, Any]:
    """The ConfigMap of ``plan``. Its name contains a hash of its content, because it is immutable."""
    script, archive, digest = _content()
    metadata: dict[str, Any] = {"name": f"{plan.name}-k8sel-{digest[:10]}"}
    if plan.namespace:
        metadata["namespace"] = plan.namespace
    metadata["labels"] = dict(plan.labels)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "data": {files.SCRIPT: script},
        "binaryData": {files.ARCHIVE: archive},
    }

"""The ConfigMap that mounts the entrypoint into a job's containers: each job has its own, which is immutable."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from typing import Any

from msgspec import Struct

from k8sel.bundle import files
from k8sel.jobfile.canonical import sha256
from k8sel.planning.plan import JobPlan


class _Content(Struct, frozen=True, kw_only=True):
    script: str
    archive: str  # in base64
    digest: str


@cache
def _content() -> _Content:
    """The files of the ConfigMap. They are the same for every job, so k8sel builds them once."""
    script, archive = files.script(), files.archive()
    digest = sha256(script.encode() + b"\0" + archive).hexdigest()
    return _Content(script=script, archive=b64encode(archive).decode(), digest=digest)


def emit(plan: JobPlan) -> dict[str, Any]:
    """The ConfigMap of ``plan``. Its name contains a hash of its content, because it is immutable."""
    content = _content()
    metadata: dict[str, Any] = {"name": f"{plan.name}-k8sel-{content.digest[:10]}"}
    if plan.namespace:
        metadata["namespace"] = plan.namespace
    metadata["labels"] = dict(plan.labels)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "data": {files.SCRIPT: content.script},
        "binaryData": {files.ARCHIVE: content.archive},
    }

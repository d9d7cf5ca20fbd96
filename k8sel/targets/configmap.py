"""The ConfigMap that brings the entrypoint into the job's containers: the job's own, and immutable."""

from __future__ import annotations

from base64 import b64encode
from hashlib import sha256
from typing import Any

from k8sel import zipapp
from k8sel.plan import JobPlan


def name(plan: JobPlan) -> str:
    """Changes with the content, which cannot change under a name."""
    content = zipapp.start_script().encode() + b"\0" + zipapp.build()
    return f"{plan.name}-k8sel-{sha256(content).hexdigest()[:10]}"


def emit(plan: JobPlan) -> dict[str, Any]:
    """The ConfigMap of ``plan``."""
    metadata: dict[str, Any] = {"name": name(plan)}
    if plan.namespace:
        metadata["namespace"] = plan.namespace
    metadata["labels"] = dict(plan.labels)
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": metadata,
        "immutable": True,
        "data": {zipapp.SCRIPT: zipapp.start_script()},
        "binaryData": {zipapp.ARCHIVE: b64encode(zipapp.build()).decode()},
    }

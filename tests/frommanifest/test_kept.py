"""Fields of a manifest that arrive in the job file."""

from __future__ import annotations

from typing import Any

import yaml

from frommanifest.test_manifests import manifest
from k8sel.adopt.line import Options
from k8sel.adopt.manifest import convert


def test_the_queue_and_the_service_account_are_kept() -> None:
    given: dict[str, Any] = yaml.safe_load(manifest("no-shared-memory"))
    given["metadata"]["labels"] = {"kueue.x-k8s.io/queue-name": "team", "own": "1"}
    for replica in given["spec"]["pytorchReplicaSpecs"].values():
        replica["template"]["spec"]["serviceAccountName"] = "trainer"

    job = yaml.safe_load(convert(yaml.safe_dump(given), Options())[0])

    assert job["metadata"]["labels"] == {"own": "1"}
    assert job["spec"]["scheduling"]["queue"] == "team"
    assert job["spec"]["serviceAccountName"] == "trainer"

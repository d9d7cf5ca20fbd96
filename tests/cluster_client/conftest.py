"""A client of the test cluster, as a user's kubeconfig would give it."""

from __future__ import annotations

import pytest

from cluster.client import Cluster as Box
from k8sel.cluster import Cluster, connect


@pytest.fixture
def client(cluster: Box, namespace: str, monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """The administrator's way in, to a namespace of the test's own."""
    for name in ("KUBECONFIG", "NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, cluster.environment[name])
    return connect(namespace=namespace)

"""One module for each target: it turns a JobPlan into plain dicts. Pure; decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from k8sel.emit import mpijob, pytorchjob
from k8sel.planning.plan import JobPlan

Emit = Callable[[JobPlan, str | None], dict[str, Any]]

# target -> its emitter: (plan, name of the entrypoint's ConfigMap or None) -> the job's object
TARGETS: Mapping[str, Emit] = MappingProxyType({"PyTorchJob": pytorchjob.emit, "MPIJob": mpijob.emit})

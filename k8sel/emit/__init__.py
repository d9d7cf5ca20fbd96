"""One module a target: a JobPlan written down as plain dicts. Pure; nothing is decided here."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from k8sel.emit import mpijob, pytorchjob
from k8sel.planning.plan import JobPlan

Emit = Callable[[JobPlan, str | None], dict[str, Any]]

# target -> its emitter: (plan, name of the ConfigMap with the entrypoint, None for none) -> the job's object
TARGETS: Mapping[str, Emit] = MappingProxyType({"PyTorchJob": pytorchjob.emit, "MPIJob": mpijob.emit})

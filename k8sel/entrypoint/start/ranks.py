"""Finds the rank of this process, from the variables of the launcher that started it. Pure."""

from __future__ import annotations

from k8sel.entrypoint.lean import TYPE_CHECKING
from k8sel.entrypoint.machine import whole
from k8sel.entrypoint.report import Stop

if TYPE_CHECKING:
    from typing import Any

NAMES = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
# torchrun sets it for its workers, beside our own names: torch/distributed/elastic/agent/server/local_elastic_agent.py
_TORCHRUN = "TORCHELASTIC_RUN_ID"


def resolve(environ: dict[str, str], flavours: dict[str, dict[str, Any]]) -> dict[str, str]:
    """Returns this process's RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE. Raises Stop if no launcher set them.

    MPI's variables come before plain ones: mpirun may have passed on the launcher pod's own RANK.
    """
    for theirs in _tables(environ, flavours):
        found = {ours: environ[name] for ours, name in theirs.items() if whole(environ.get(name, "")) is not None}
        if len(found) == len(NAMES):
            return found
    known = sorted({row["rank"]["LOCAL_RANK"] for row in flavours.values()} | {"LOCAL_RANK"})
    raise Stop([f"no rank of this process is set ({', '.join(known)}): start it by mpirun or torchrun"])


def _tables(environ: dict[str, str], flavours: dict[str, dict[str, Any]]) -> list[dict[str, str]]:
    plain = {name: name for name in NAMES}
    if _TORCHRUN in environ:
        return [plain]
    return [*(row["rank"] for row in flavours.values()), plain]

"""What the entrypoint is told to find: ``K8SEL_EXPECT``, JSON with a version.

The one definition for both sides: ``plan`` writes it, the entrypoint reads it. Standard library only, Python >= 3.9.
Keys are camelCase in JSON. Compact, with sorted keys; readers parse it, nobody compares its bytes.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Optional, Tuple

VERSION = 1
VARIABLE = "K8SEL_EXPECT"


@dataclass(frozen=True)
class Expectation:
    """One job's devices, as each of its nodes has to find them."""

    accelerator: str  # a row of the accelerator table
    devices: Tuple[int, ...]  # positions among the devices found, in `order`: local rank r gets devices[r]
    count: Optional[int] = None  # devices the node must hold, exactly; None: at least max(devices) + 1
    order: str = "pci"  # how positions are counted: pci | fastest
    product: Tuple[str, ...] = ()  # product names allowed, in the spelling of the vendor's node label; () is any
    isolation: str = "node"  # node: a rank sees all of `devices`; process: only its own consecutive share
    launcher: str = "python"  # torchrun | accelerate | deepspeed | mpirun | python
    nodes: int = 1
    processes_per_node: int = 1
    threads_per_process: Optional[int] = None  # None: from the CPUs the node really has
    check: str = "enforce"  # enforce | warn | off
    job: str = ""
    job_file: str = ""  # sha256 of the job file, for the receipt
    probe: Tuple[str, ...] = ()  # MPI only: the command that starts one check on each node

    def to_json(self) -> str:
        """Compact JSON with sorted keys; fields at their default are left out."""
        default = Expectation(accelerator="", devices=())
        fields = {
            _camel(name): value
            for name, value in asdict(self).items()
            if name in ("accelerator", "devices") or value != getattr(default, name)
        }
        return json.dumps({"version": VERSION, **fields}, sort_keys=True, separators=(",", ":"))


def parse(text: str) -> Expectation:
    """The expectation in ``text``. Raises ValueError, with a message for people, on anything else."""
    try:
        fields: Any = json.loads(text)
    except ValueError as error:
        raise ValueError(f"{VARIABLE} is not JSON: {error}") from None
    if not isinstance(fields, dict) or fields.pop("version", None) != VERSION:
        raise ValueError(f"{VARIABLE} is not of version {VERSION}: the entrypoint and k8sel are of different releases")
    known = {_camel(name): name for name in Expectation.__dataclass_fields__}
    unknown = sorted(set(fields) - set(known))
    if unknown:
        raise ValueError(f"{VARIABLE} has unknown fields: {', '.join(unknown)}")
    return Expectation(**{known[key]: tuple(v) if isinstance(v, list) else v for key, v in fields.items()})


def _camel(name: str) -> str:
    head, *tail = name.split("_")
    return head + "".join(part.title() for part in tail)

"""torch.distributed's backends: the facts of each, the backend that a command names, and the variables of oneCCL."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

TABLE = Path(__file__).parent / "backends.json"


class Backend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One backend."""

    accelerators: tuple[str, ...]  # the types whose processes it connects; () is any
    launchers: tuple[str, ...]  # that can give several processes their ranks in it; () is any
    oneccl: bool  # whether it communicates by oneCCL
    # What the image needs for it is the entrypoint's to compare (k8sel.entrypoint.checks.backends):
    since: dict[str, str]  # package -> the first version that has it
    until: dict[str, str]  # package -> the last one
    built: tuple[str, ...]  # torch is built with one of these: names in torch/version.py; () is any torch
    linked: str | None  # what torch is linked with, as its name begins
    bindings: str | None  # the distribution that brings it to torch; None where torch has it
    modules: tuple[str, ...]  # its packages, of which it has one
    pairs: dict[str, str]  # its version -> torch's that it is for; others go with torch of the same two numbers
    instead: str | None  # the backend that any torch has
    source: str

    def connects(self, accelerator: str) -> bool:
        """Whether it connects processes that compute on that type."""
        return not self.accelerators or accelerator in self.accelerators


BACKENDS: Mapping[str, Backend] = MappingProxyType(msgspec.json.decode(TABLE.read_bytes(), type=dict[str, Backend]))

# Both spellings are transformers' (HfArgumentParser); its TrainingArguments say which words it takes.
OPTIONS = ("--ddp_backend", "--ddp-backend")
# Field of spec.ccl -> its variable: uxlfoundation/oneCCL doc/rst/source/env-variables.rst; libfabric's is FI_PROVIDER.
VARIABLES: Mapping[str, str] = MappingProxyType(
    {
        "workers": "CCL_WORKER_COUNT",
        "workerAffinity": "CCL_WORKER_AFFINITY",
        "transport": "CCL_ATL_TRANSPORT",
        "provider": "FI_PROVIDER",
        "interface": "CCL_KVS_IFACE",
        "logLevel": "CCL_LOG_LEVEL",
    }
)


def named(command: Sequence[str]) -> tuple[int, str] | None:
    """Which word of ``command`` names its backend, and the name; the last one counts, as argparse has it."""
    found = None
    for index, word in enumerate(command):
        option, assigned, value = word.partition("=")
        if option not in OPTIONS:
            continue
        if assigned:
            found = index, value
        elif index + 1 < len(command):
            found = index + 1, command[index + 1]
    return found


def uses_oneccl(name: str | None) -> bool:
    """Whether the backend called ``name`` communicates by oneCCL; an unknown one does not."""
    row = BACKENDS.get(name or "")
    return row is not None and row.oneccl

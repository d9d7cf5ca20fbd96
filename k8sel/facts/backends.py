"""torch.distributed's backends: the facts of each, the backend that a command names, and the variables of oneCCL."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

import msgspec

TABLE = Path(__file__).parent / "backends.json"


class Backend(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One backend."""

    accelerators: tuple[str, ...]  # the types of devices that it connects; () is any
    launchers: tuple[str, ...]  # the launchers that can give its processes their ranks; () is any
    oneccl: bool  # true if it communicates by oneCCL
    host_tensors: bool  # also used by programs on other devices, for tensors of the CPU
    # The image's requirements, which the entrypoint checks (k8sel.entrypoint.checks.backends):
    since: dict[str, str]  # package -> the first version that has it
    until: dict[str, str]  # package -> the last version that has it
    built: tuple[str, ...]  # torch is built with one of these: names in torch/version.py; () is any torch
    linked: str | None  # the start of the name of a library that torch is linked with
    bindings: str | None  # the distribution that adds it to torch; None if torch has it
    modules: tuple[str, ...]  # the names of its package: it has one of them
    pairs: dict[str, str]  # its version -> torch's version; other versions fit torch's with the same two numbers
    instead: str | None  # the backend that any torch has; None where it does not move these devices' tensors
    source: dict[str, str]  # field -> the sources of its fact

    def connects(self, accelerator: str) -> bool:
        """Reports whether it connects processes that compute on that type."""
        return not self.accelerators or accelerator in self.accelerators


BACKENDS: Mapping[str, Backend] = MappingProxyType(msgspec.json.decode(TABLE.read_bytes(), type=dict[str, Backend]))

# transformers has both spellings (HfArgumentParser); its TrainingArguments list the allowed values.
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
    """The index of the word that names the backend, and the backend. The last one counts, as in argparse."""
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
    """Reports if the backend called ``name`` communicates by oneCCL; an unknown backend does not."""
    row = BACKENDS.get(name or "")
    return row is not None and row.oneccl

"""The machine's real GPUs. Without any, these tests are skipped; with K8SEL_REQUIRE_GPU=1 (`make gpu`) they fail."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest
from entrypoint import rooted

from gpu import smi
from k8sel.bundle import files
from k8sel.facts import accelerators

MASKS = {name for row in accelerators.ROWS.values() for name in row.owned_env}


def unavailable(reason: str) -> NoReturn:
    """Skips the test for this reason, or fails it in a run that is for the GPU."""
    if os.environ.get("K8SEL_REQUIRE_GPU") == "1":
        pytest.fail(f"K8SEL_REQUIRE_GPU=1, and {reason}", pytrace=False)
    pytest.skip(reason)


@dataclass(frozen=True)
class Gpus:
    """A machine with GPUs, and the entrypoint as a container gets it."""

    cards: Sequence[smi.Card]  # by PCI address: a job file's numbers
    archive: Path

    def uuids(self, numbers: Sequence[int]) -> list[str]:
        return [self.cards[number].uuid for number in numbers]

    def start(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """A command behind the entrypoint, told by hand what to find."""
        return self.plain(sys.executable, "-I", "-S", str(self.archive), *words, env=variables)

    def plain(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """A command, with no mask of this shell's."""
        own = {name: value for name, value in os.environ.items() if name not in MASKS}
        return subprocess.run(
            words, env={**own, **(env or {})}, capture_output=True, text=True, check=False, timeout=120
        )


@pytest.fixture(scope="session")
def gpus(tmp_path_factory: pytest.TempPathFactory) -> Gpus:
    """This machine's GPUs."""
    try:
        cards = smi.cards()
    except OSError as error:
        unavailable(f"this machine has no NVIDIA GPU: {error}")
    if not cards:
        unavailable("nvidia-smi names no GPU")
    if any(card.partitioned for card in cards):
        unavailable("this machine's GPUs are partitioned (MIG), and these tests compare whole ones")
    archive = tmp_path_factory.mktemp("entrypoint") / files.ARCHIVE
    archive.write_bytes(rooted.archive() if "K8SEL_ROOT" in os.environ else files.archive())
    return Gpus(cards, archive)

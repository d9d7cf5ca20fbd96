"""Reads a machine's GPUs from nvidia-smi."""

from __future__ import annotations

import csv
import subprocess
from dataclasses import dataclass

QUERY = ("uuid", "pci.bus_id", "name", "memory.total", "driver_version", "mig.mode.current")


@dataclass(frozen=True)
class Card:
    """One GPU."""

    uuid: str
    pci: str  # as /proc and /sys write it
    name: str
    memory: int  # MiB
    driver: str
    partitioned: bool


def cards() -> list[Card]:
    """This machine's GPUs in PCI order. Raises OSError where there is no nvidia-smi, or no answer of it."""
    command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    if done.returncode:
        raise OSError(f"nvidia-smi ends with {done.returncode}: {(done.stdout + done.stderr).strip()}")
    return parse(done.stdout)


def parse(text: str) -> list[Card]:
    """The GPUs in nvidia-smi's answer to QUERY, in PCI order."""
    found = (_card(fields) for fields in csv.reader(text.splitlines(), skipinitialspace=True) if fields)
    return sorted(found, key=lambda card: card.pci)


def _card(fields: list[str]) -> Card:
    uuid, pci, name, memory, driver, mig = fields
    return Card(uuid, _as_the_kernel(pci), name, int(memory), driver, partitioned=mig == "Enabled")


def _as_the_kernel(address: str) -> str:
    """``00000000:3B:00.0`` as ``0000:3b:00.0``."""
    domain, _, rest = address.lower().partition(":")
    return f"{int(domain, 16):04x}:{rest}"

"""Finds traps in manifests that others wrote: PyTorchJob, MPIJob, Job and Pod. Changes nothing.

A trap is a function with a row: the setting that it looks at, the consequence, the fix, and the source.
"""

from __future__ import annotations

from collections.abc import Iterator

from k8sel.adopt.manifest.reader import KINDS, Manifest, manifests
from k8sel.audit import cpus, devices, launching, mpi, pods, starters
from k8sel.audit.trap import Finding, Trap
from k8sel.errors import FieldPath
from k8sel.jobfile.yamlio import parse

__all__ = ["KINDS", "TRAPS", "Finding", "Trap", "audit"]

_MODULES = (launching, starters, devices, mpi, cpus, pods)
TRAPS = tuple(each for module in _MODULES for each in vars(module).values() if isinstance(each, Trap))


def audit(text: bytes, file: str) -> tuple[list[Finding], int]:
    """Returns the traps in ``text``, in its order, and the number of objects. Raises SpecError on wrong YAML."""
    looked_at = [manifest for document in parse(text, file) for manifest in manifests(document)]
    found = [finding for manifest in looked_at for finding in _findings(manifest)]
    return sorted(found, key=_order), len(looked_at)


def _findings(manifest: Manifest) -> Iterator[Finding]:
    for trap in TRAPS:
        seen: set[tuple[FieldPath, str]] = set()
        for path, found in trap.find(manifest):
            if (path, found) not in seen:
                seen.add((path, found))
                yield Finding(
                    trap=trap,
                    object=f"{manifest.kind}/{manifest.name or '?'}",
                    field=path,
                    location=manifest.document.locate(path),
                    found=found,
                )


def _order(finding: Finding) -> tuple[int, int, str]:
    return finding.location.line, finding.location.column, finding.trap.id

"""Reads and writes YAML as Kubernetes does. Independent of the job file; raises only SpecError.

The reader is strict and keeps the location of each value. The writer gives the same bytes for the same data. The
parts: ``scalars`` (values of unquoted words), ``read``, ``words`` and ``write``.
"""

from __future__ import annotations

from k8sel.jobfile.yamlio.read import Document, parse
from k8sel.jobfile.yamlio.write import dump, dump_json

__all__ = ["Document", "dump", "dump_json", "parse"]

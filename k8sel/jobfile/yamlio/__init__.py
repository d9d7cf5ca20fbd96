"""YAML in and out, as Kubernetes reads it. Knows nothing of the job file, and raises nothing but SpecError.

Reading is strict and remembers where everything stands; writing is byte-stable. The parts: ``scalars`` (what an
unquoted word means), ``read``, ``words`` and ``write``.
"""

from __future__ import annotations

from k8sel.jobfile.yamlio.read import Document, parse
from k8sel.jobfile.yamlio.write import dump, dump_json

__all__ = ["Document", "dump", "dump_json", "parse"]

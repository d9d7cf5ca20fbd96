"""YAML in and out, as Kubernetes reads it. Knows nothing of the job file, and raises nothing but SpecError.

Reading is strict and remembers where everything stands; writing is byte-stable. The parts: ``yamlio_scalars`` (what an
unquoted word means), ``yamlio_read``, ``yamlio_words`` and ``yamlio_write``.
"""

from __future__ import annotations

from k8sel.yamlio_read import Document, parse
from k8sel.yamlio_write import dump, dump_json

__all__ = ["Document", "dump", "dump_json", "parse"]

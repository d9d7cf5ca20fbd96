"""Everything that is wrong with a document that does not decode. Imported only then."""

from __future__ import annotations

import msgspec

from k8sel.errors import Kind, Problem
from k8sel.yamlio import Document


def explain(document: Document, error: msgspec.ValidationError) -> list[Problem]:
    """The problems of ``document``, each located; ``error`` is what decoding said first."""
    return [Problem(kind=Kind.INVALID, path=(), message=str(error), location=document.locate(()))]

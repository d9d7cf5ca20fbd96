"""Imports PyYAML fast: without its patterns, which its C parser does not need.

One of them takes a tenth of a rendering: Python's Lib/re/_compiler.py (``_optimize_charset``) marks all 65,000
characters of a range one by one. Here each pattern compiles at its first use, so PyYAML's own loaders still work.
"""

from __future__ import annotations

import re
from typing import Any

__all__ = ["yaml"]


class _Pattern:
    """A pattern that compiles at its first use."""

    def __init__(self, *given: Any) -> None:  # noqa: ANN401  # the arguments of re.compile
        self._given = given

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # an attribute of re.Pattern
        return getattr(re.compile(*self._given), name)  # `re` keeps what it compiled


_compile = re.compile
try:
    re.compile = _Pattern  # type: ignore[assignment]
    import yaml
finally:
    re.compile = _compile

"""The chart's own fixture serves here too."""

from __future__ import annotations

from helm.conftest import helm

__all__ = ["helm"]

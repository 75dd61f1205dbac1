"""Risks that bound the rounding errors of their values, so that certificates hold in exact arithmetic."""

from __future__ import annotations

from typing import Protocol

from maxmargin.core.vectors import Array


class ProvedRisk(Protocol):
    """A risk that knows what rounding may have done to its values."""

    @property
    def n_examples(self) -> int:
        """Number of rows."""

    def rounding(self, w: Array, value: float) -> float:
        """What rounding may have done to ``value``, computed as R(w)."""

    def proved_value(self, w: Array, enough: float) -> float:
        """R(w) with an error of at most ``enough``, or an upper bound of it."""

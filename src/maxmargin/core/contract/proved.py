"""Risks that bound the rounding errors of their values, so that certificates hold in exact arithmetic."""

from __future__ import annotations

from typing import Protocol

from maxmargin.core.vectors import Array


class ProvedRisk(Protocol):
    """A risk with bounds on the rounding errors of its values."""

    @property
    def n_examples(self) -> int:
        """Number of samples."""

    def rounding(self, w: Array, value: float) -> float:
        """Bound on the rounding error of ``value``, the computed R(w)."""

    def proved_value(self, w: Array, enough: float) -> float:
        """R(w) with an error of at most ``enough``, or an upper bound of it."""

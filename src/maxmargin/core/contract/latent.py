"""Risks with latent variables: with the latent values fixed, a risk is a convex upper bound of the true
one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from maxmargin.core.contract.risk import Risk
from maxmargin.core.vectors import Array


@dataclass(frozen=True, slots=True, eq=False)
class LatentAnswers:
    """Results of completion for a range of examples: the latent values found, by how much each scores
    more than the current one, and the magnitude of the scores compared (rounding errors scale with it)."""

    latent: list[Any]
    gains: Array
    scales: Array


@dataclass(frozen=True, slots=True, eq=False)
class Completion:
    """The best latent values at some w.

    ``decrease`` is how much the risk decreases at that w when they replace the current values.
    ``n_changed`` is the number of examples whose value changes. ``passes`` counts the calls of the
    loss-augmented oracle per example, where they were needed to compute the decrease.
    """

    latent: list[Any]
    decrease: float
    n_changed: int
    passes: float = 0.0


class LatentRisk(Risk, Protocol):
    """A convex risk with fixed latent values: an upper bound (majorant) of a nonconvex risk."""

    @property
    def latent(self) -> list[Any]:
        """The current latent values, one per example."""

    def complete(self, w: Array) -> Completion:
        """The best values at ``w``; ties keep the current value. Raise an error if a value found is worse."""

    def completed(self, latent: Sequence[Any], memory: Any = None) -> tuple[Self, Any]:
        """The risk with these latent values, and the solver's memory converted to it (or None). The present
        risk must not be used afterwards."""

"""Risks with values that were not labeled: completed ones are convex, and lie above the risk that is not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, Self

from maxmargin.core.contract.risk import Risk
from maxmargin.core.vectors import Array


@dataclass(frozen=True, slots=True, eq=False)
class LatentAnswers:
    """What the completing argmax said for a range of examples: the values found, by how much each scores
    more than the one held, and the size of the scores compared (what rounding errors scale with)."""

    latent: list[Any]
    gains: Array
    scales: Array


@dataclass(frozen=True, slots=True, eq=False)
class Completion:
    """Values for what was not labelled, the best ones at some w.

    ``decrease`` is by how much the risk falls at that w when they replace the values held before,
    ``n_changed`` how many examples have another one. ``passes`` are calls of the loss-augmented argmax per
    example, where it had to be asked to know the decrease.
    """

    latent: list[Any]
    decrease: float
    n_changed: int
    passes: float = 0.0


class LatentRisk(Risk, Protocol):
    """A convex risk with values given to what was not labelled: a majorant of a risk that is not convex."""

    @property
    def latent(self) -> list[Any]:
        """The values, one per example."""

    def complete(self, w: Array) -> Completion:
        """The best values at ``w``, those held where they are as good. An error if one found is worse."""

    def completed(self, latent: Sequence[Any], memory: Any = None) -> tuple[Self, Any]:
        """The risk with other values, and what a solver kept for this one carried over to it (or None). This
        risk must not be used any more."""

"""The dual of a kernel machine, optimized over large blocks of samples, and the risk that provides it.

    max over beta      <t, beta> - <width, |beta|> - 1/2 beta' K beta
    subject to         lo <= beta <= hi,   sum_i beta_i = 0 if there is an intercept

For two classes, t holds the labels y, the width is zero, and 0 <= y_i beta_i <= c_i.

There is no feature matrix: a point is the function sum_i beta_i k(x_i, .), represented by its scores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.vectors import Array


@runtime_checkable
class BlockDuals(Protocol):
    """Multipliers of the samples and their scores. A long step ends early once ``late()`` returns True."""

    late: Callable[[], bool]

    @property
    def n_examples(self) -> int:
        """Number of samples."""

    @property
    def n_rows(self) -> int:
        """Number of samples in the last block."""

    @property
    def n_support(self) -> int:
        """Number of samples with a nonzero multiplier."""

    @property
    def whole(self) -> bool:
        """Whether the scores of all samples are up to date."""

    def bounds(self) -> tuple[float, float, float]:
        """Estimates of (F, D, b) at the current point, computed from the current scores."""

    def kept(self, b: float) -> tuple[Array, FeasibleDual]:
        """The current point with intercept ``b``, and its multipliers as a dual point."""

    def improve(self, seed: int) -> SweepStats:
        """Optimize over one block."""

    def refresh(self, sharper: bool) -> None:
        """Recompute the scores of all samples in double precision. ``sharper``: keep double precision."""

    def solve_directly(self) -> bool:
        """Optimize all multipliers at once. Return False if there are too many samples or no improvement."""


class BlockRisk(Protocol):
    """A risk over functions of a kernel."""

    def block_duals(self, C: float) -> BlockDuals:
        """New multipliers, all zero."""

"""The dual of a kernel machine, improved by large blocks of rows, and a risk that offers it.

    max over beta      <y, beta> - 1/2 beta' K beta
    subject to         0 <= y_i beta_i <= c_i,   sum_i beta_i = 0 if there is an intercept

There are no features, so a point is the function sum_i beta_i k(x_i, .), and its scores are followed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from maxmargin.core.contract.sweeps import SweepStats
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.vectors import Array


@runtime_checkable
class BlockDuals(Protocol):
    """Multipliers of the rows and their scores. A step that takes long ends early when ``late()`` is true."""

    late: Callable[[], bool]

    @property
    def n_examples(self) -> int:
        """Number of rows."""

    @property
    def n_rows(self) -> int:
        """Rows of the last block."""

    @property
    def n_support(self) -> int:
        """Rows with a multiplier."""

    @property
    def whole(self) -> bool:
        """Whether the scores of all rows are up to date."""

    def bounds(self) -> tuple[float, float, float]:
        """(F, D, b) at the present point: estimates, from scores as they are."""

    def kept(self, b: float) -> tuple[Array, FeasibleDual]:
        """The present point with this intercept, and its multipliers as a dual point."""

    def improve(self, seed: int) -> SweepStats:
        """One block."""

    def refresh(self, sharper: bool) -> None:
        """Follow all rows again, from scores in double precision; ``sharper``: and stay with it."""

    def solve_directly(self) -> bool:
        """Solve for all multipliers at once; False where there are too many rows, or nothing better."""


class BlockRisk(Protocol):
    """A risk of functions of a kernel."""

    def block_duals(self, C: float) -> BlockDuals:
        """Fresh multipliers."""

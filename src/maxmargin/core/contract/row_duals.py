"""The dual of a problem over rows, methods that improve it, and a risk that offers them.

    max over alpha     sum_i d_i(alpha_i) - 1/2 |sum_i alpha_i x_i|^2

with one concave function d_i for each row, minus the conjugate of its loss: a linear function on a box for
the hinge, a quadratic one for the squared hinge.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

from maxmargin.core.contract.evaluation import LineEvaluation
from maxmargin.core.contract.sweeps import Streaming, SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.vectors import Array


@dataclass(frozen=True, slots=True)
class RowShape:
    """What a choice of method looks at: stored entries of the rows, scores per row, and whether the loss is
    differentiable."""

    nnz: int = 0
    n_columns: int = 1
    smooth: bool = False


#: of a risk that does not show rows
NO_ROWS = RowShape()


class RowDuals(Protocol):
    """A dual point over the rows of a score risk, and a method to improve it.

    The multipliers alpha of the rows (one each, or one per class) give the point
    ``w = sum_i alpha_i dl_i`` and a dual value D(alpha) <= F(w*). The solver owns schedule, bounds
    and stopping; what is behind this seam is one compiled epoch of coordinate ascent or one Newton
    step.
    """

    @property
    def w(self) -> Array:
        """The primal point of the current multipliers (a view that later steps change)."""

    @property
    def n_examples(self) -> int:
        """Number of rows in the problem."""

    @property
    def C(self) -> float:
        """The C of the present multipliers."""

    @property
    def scale(self) -> float:
        """The largest C at which the problem is surely easy: 1 over the mean of ``|x|^2``."""

    @property
    def n_steps(self) -> int:
        """Steps that make one visit of all rows."""

    @property
    def n_active(self) -> int:
        """Rows the next step will visit; the others sit at a bound and are expected to stay. (Rows held in
        memory, where the others are not.)"""

    @property
    def n_support(self) -> int:
        """Rows with a multiplier that is not zero."""

    def improve(self, seed: int) -> SweepStats:
        """One epoch or one Newton step. ``stats.gap`` estimates the duality gap, as rows were
        visited, for free; ``stats.oracle_calls`` counts the rows visited."""

    def check(self, scores: Array) -> None:
        """Take the exact scores of all rows at the current ``w``: the active rows are chosen anew."""

    def dual_estimate(self, C: float) -> float:
        """The dual value for this C of the best feasible multiple of alpha, from the ``w`` that the
        steps kept: right up to rounding, and cheap. At the C of the steps the multiple is alpha."""

    def dual_value(self, C: float) -> float:
        """The same with ``w`` recomputed from the multipliers, which also resets ``w``."""

    def proved_value(self, C: float, negligible: float) -> float:
        """The same less what rounding may have added, unless that is negligible."""

    def aggregate(self) -> Cut:
        """The multipliers as one cut of the risk: with it alone a bundle reaches D(alpha)."""

    @property
    def multipliers(self) -> Array:
        """The multipliers, one row each, zero for rows outside the problem (a view)."""

    def load(self, multipliers: Array) -> None:
        """Start from these multipliers, brought into the box of the present C."""

    def state(self) -> dict[str, Any]:
        """Multipliers and what else the method needs to go on later, as plain arrays."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take what :meth:`state` of duals of the same rows at the same C gave; a ValueError where it cannot
        be theirs."""

    def start_at(self, w: Array, gap: float) -> None:
        """Take a hint: a point that another method found, with the relative gap left there."""

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """Carry multipliers and ``w`` over to another C, and to what bounds its free coordinates."""


def refused(method: str, why: str) -> str:
    """What a user reads where :meth:`RowDualRisk.refusal` has a reason."""
    return f"cannot use the {method} method here: {why}. Use solver=CuttingPlane()."


class RowDualRisk(Protocol):
    """A risk that shows its rows to dual methods."""

    @property
    def shape(self) -> RowShape:
        """The size of the problem."""

    def refusal(self, method: str, regularizer: SquaredNorm) -> str | None:
        """Why this method cannot be used for this problem, as the end of a sentence; None if it can."""

    def methods(self, regularizer: SquaredNorm) -> frozenset[str]:
        """The methods that can."""

    def row_duals(
        self, method: str, C: float, regularizer: SquaredNorm, streaming: Streaming | None = None
    ) -> RowDuals:
        """A fresh dual point over the rows, improved by this method."""

    def scores(self, at: LineEvaluation) -> Array:
        """The scores of an evaluated point, one for each row, 0 for rows outside the problem."""

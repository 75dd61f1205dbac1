"""The dual of a problem over samples, the methods that optimize it, and the risk that provides them.

    max over alpha     sum_i d_i(alpha_i) - 1/2 |sum_i alpha_i x_i|^2

with one concave function d_i per sample, minus the conjugate of its loss: linear on a box for the hinge loss,
quadratic for the squared hinge loss. The docstrings below call samples rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Protocol, runtime_checkable

from maxmargin.core.contract.evaluation import LineEvaluation
from maxmargin.core.contract.sweeps import Blocks, Streaming, SweepStats
from maxmargin.core.cut import Cut
from maxmargin.core.engine import Engine
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import UpperBound
from maxmargin.core.vectors import Array


@dataclass(frozen=True, slots=True)
class RowShape:
    """Properties by which a method is chosen: nonzero entries of the rows, scores per row, whether the loss
    is differentiable, and whether a slope on a line costs as much as a cut (then line searches use few)."""

    nnz: int = 0
    n_columns: int = 1
    smooth: bool = False
    expensive_slopes: bool = False


#: the method whose dual points are stored by the shards of an engine, and end with them
AT_SHARDS: Final = "shard coordinate"
#: for a risk without rows
NO_ROWS = RowShape()


class RowDuals(Protocol):
    """A dual point over the rows of a score risk, and a method that improves it.

    The multipliers alpha of the rows (one per row, or one per row and class) give the point
    ``w = sum_i alpha_i dl_i`` and a dual value D(alpha) <= F(w*). The solver decides on schedule, bounds
    and stopping. Each implementation provides one compiled step: an epoch of coordinate ascent or a Newton
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
        """The C of the current multipliers."""

    @property
    def easy_C(self) -> float:
        """The largest C at which the problem is certainly easy: 1 over the mean of ``|x|^2``."""

    @property
    def n_steps(self) -> int:
        """Number of steps that visit all rows once."""

    @property
    def n_active(self) -> int:
        """Number of rows the next step visits; shrinking has removed the others, which are at a bound. (For
        out-of-core methods: the rows held in memory.)"""

    @property
    def n_support(self) -> int:
        """Number of rows with a nonzero multiplier."""

    def improve(self, seed: int) -> SweepStats:
        """Run one epoch or one Newton step. ``stats.gap_estimate`` estimates the duality gap from the rows as
        they were visited, at no extra cost; ``stats.oracle_calls`` counts the rows visited."""

    def check(self, scores: Array) -> None:
        """Reselect the active rows, given the exact scores of all rows at the current ``w``."""

    def dual_estimate(self, C: float) -> float:
        """The dual value for this C of the best feasible multiple of alpha, from the ``w`` that the
        steps maintain: cheap, and correct up to rounding. At the C of the steps the multiple is alpha."""

    def dual_value(self, C: float) -> float:
        """The same with ``w`` recomputed from the multipliers, which also resets ``w``."""

    def proved_value(self, C: float, attained: UpperBound) -> float:
        """The same minus a bound on the rounding error, unless that is negligible for this objective."""

    def aggregate(self) -> Cut:
        """The multipliers as one cut of the risk; a bundle of this cut alone attains D(alpha)."""

    @property
    def multipliers(self) -> Array:
        """The multipliers, one per row, zero for rows outside the problem (a view)."""

    def load(self, multipliers: Array) -> None:
        """Start from these multipliers, clipped to the box of the current C."""

    def state(self) -> dict[str, Any]:
        """Multipliers and everything else the method needs to continue later, as plain arrays."""

    def restore(self, state: dict[str, Any]) -> None:
        """Restore a :meth:`state` of duals of the same rows at the same C; raise ValueError if it does not
        fit."""

    def start_at(self, w: Array, gap: float) -> None:
        """Use a point that another method found as a hint, given its relative duality gap."""

    def rescale(self, C: float, regularizer: SquaredNorm) -> None:
        """Convert multipliers and ``w`` to another C and to its bound on the free coordinates."""


class RowSample(Protocol):
    """A sample of the rows of a problem with a smooth loss."""

    def solution(self) -> Array:
        """The minimum of F over the sample, each row of which stands for several."""

    def step(self, w: Array, gradient: Array) -> Array | None:
        """The Newton step at ``w`` for this gradient of F over all rows, by the Hessian of the sample; None
        if there is none."""


@runtime_checkable
class SeveralEpochs(Protocol):
    """Row duals that run several epochs in one step, until the estimated gap is at most ``goal``, at which
    the fit ends."""

    goal: float


@runtime_checkable
class DualsInShards(Protocol):
    """Row duals whose multipliers stay with the shards of an engine, which write and read their own."""

    def save_shards(self, url: str, name: str) -> None:
        """Write the multipliers of each shard to a file of its own, whose name begins with ``name``."""

    def restore_shards(self, url: str, name: str) -> None:
        """Start from what shards of the same rows have written, at the same C."""


def refused(method: str, why: str) -> str:
    """The error message for a reason given by :meth:`RowDualRisk.refusal`."""
    return f"cannot use the {method} method here: {why}. Use solver=CuttingPlane()."


class RowDualRisk(Protocol):
    """A risk that gives dual methods access to its rows."""

    @property
    def shape(self) -> RowShape:
        """The size of the problem."""

    @property
    def engine(self) -> Engine:
        """The engine that holds the shards of the risk."""

    def refusal(self, method: str, regularizer: SquaredNorm) -> str | None:
        """The reason why this method cannot solve this problem, as the end of a sentence; None if it can."""

    def methods(self, regularizer: SquaredNorm) -> frozenset[str]:
        """The names of the methods that can solve this problem."""

    def row_duals(
        self,
        method: str,
        C: float,
        regularizer: SquaredNorm,
        streaming: Streaming | None = None,
        blocks: Blocks | None = None,
    ) -> RowDuals:
        """A new dual point over the rows, optimized by this method."""

    def row_sample(self, C: float, regularizer: SquaredNorm) -> RowSample:
        """A sample of the rows, if ``refusal("sample")`` has no reason against it."""

    def check(self, duals: RowDuals, at: LineEvaluation) -> None:
        """Let duals reselect their active rows by the exact scores of their point, which was evaluated."""

    def scores(self, at: LineEvaluation) -> Array:
        """The scores of an evaluated point, one per row, 0 for rows outside the problem."""

"""Dual coordinate ascent over per-example working sets (Ramanan's algorithm 2 run in cycles).

    maximise   D(alpha) = sum_ij alpha_ij l_ij - 1/2 |w|^2,    w = - sum_ij alpha_ij p_ij,
               alpha_ij >= 0,  sum_j alpha_ij = c_i = C s_i

Each example keeps the few labellings its oracle returned, the truth first (plane 0, p = 0, l = 0),
so the simplex is an equality and the paper's single step is a pair step with plane 0. One
iteration:

    stream   for i in random order: ask the oracle at the current w, add its answer, solve the
             example's simplex problem; examples whose last gap was far below their share of the
             tolerance are skipped
    epochs   the same block steps over the cached planes, without the oracle, until their gap fell
    to 0.3 of the stream's confirm  when the gaps seen add up to less than 1.5 tolerances: the
    oracle on all examples at the fixed w gives the true
             upper bound; its answers enter the sets

Batch mode confirms every iteration instead of streaming: algorithm 1 of Joachims, Finley and Yu
(n-slack), whose reduced problem is solved by the epochs. D of any multipliers is a true lower bound
at all times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from maxmargin.core.protocols import SweepStats, WorkingSets
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.requests import Confirm, OpenSets, Report, Steps, Sweep
from maxmargin.core.vectors import Array, frozen
from maxmargin.solvers.base import Problem, SolverState, StallDetector
from maxmargin.solvers.row_dual import Coordinates, ascend

#: an example is skipped when its gap was below this fraction of its share of the tolerance
SKIP = 0.3
#: estimated gap, in tolerances, at which a confirming pass is worth it
CONFIRM_AT = 1.5
#: a confirming pass is forced after this many passes without one: an estimate may never trigger it
CONFIRM_EVERY = 15
#: epochs end when the cached gap is below this fraction of the gap before them
EPOCH_EFFORT = 0.3


@dataclass(frozen=True, slots=True, eq=False)
class SetsDual:
    """The working sets as a feasible dual point."""

    sets: WorkingSets

    def value(self, regularizer: SquaredNorm, dim: int) -> float:
        """The dual value, recomputed from the multipliers."""
        return self.sets.dual_value()

    def point(self) -> Array:
        """The primal point of the multipliers, recomputed."""
        self.sets.dual_value()
        return frozen(self.sets.w)


@dataclass(frozen=True, slots=True)
class DualCoordinate:
    """Working-set dual coordinate solver: the default for structures.

    Parameters
    ----------
    mode : {"stream", "batch"}, default "stream"
        "stream" lets every oracle call see the newest weights; "batch" asks for all examples at
        fixed weights, the n-slack algorithm of Joachims, Finley and Yu.
    max_epochs : int, default 10
        Sweeps over the cached planes between two passes of the oracle (ten times as many in batch
        mode).
    idle : int, default 8
        Planes with multiplier zero that were not used in this many passes are dropped.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import SequenceTagger
    >>> from maxmargin.solvers import DualCoordinate
    >>> X, y = [[["sun"], ["shines"]], [["rain"], ["falls"]]], [["N", "V"], ["N", "V"]]
    >>> SequenceTagger(solver=DualCoordinate(mode="batch")).fit(X, y).converged_
    True
    """

    mode: Literal["stream", "batch"] = "stream"
    max_epochs: int = 10
    idle: int = 8

    def __post_init__(self) -> None:
        if self.mode not in ("stream", "batch"):
            raise ValueError(f"mode={self.mode!r}: use 'stream' or 'batch'.")

    def steps(self, problem: Problem, state: SolverState) -> Steps:
        """The loop over rows where the risk shows them, else over working sets."""
        if "coordinate" in problem.methods:
            return ascend(problem, state, Coordinates(self.max_epochs))
        return self._sets(problem, state)

    def _sets(self, problem: Problem, state: SolverState) -> Steps:
        if len(problem.regularizer.free):
            raise ValueError(
                "DualCoordinate penalises every coordinate; for an intercept that is not penalised use "
                "solver=CuttingPlane()."
            )
        if len(problem.regularizer.nonnegative):
            raise ValueError("DualCoordinate does not keep weights from becoming negative.")
        stopping, n = problem.stopping, problem.n_examples
        rng = np.random.default_rng(problem.random_state)
        sets: WorkingSets = yield OpenSets()
        dual = SetsDual(sets)
        state.memory, state.dual, state.candidate = sets, dual, dual.point
        stall, unconfirmed = StallDetector(window=30, patience=300), 0
        upper_guess = np.inf
        while True:
            if self.mode == "stream":
                allowed = stopping.allowed_gap(min(state.upper, upper_guess), problem.C)
                skip = SKIP * allowed / n if np.isfinite(allowed) else 0.0
                stats: SweepStats = yield Sweep(sets, "stream", rng.permutation(n), skip)
                estimate = stats.gap
                unconfirmed += 1
            else:
                yield from self._confirm(sets, state)
                estimate = state.gap
            epochs = self.max_epochs if self.mode == "stream" else 10 * self.max_epochs
            if not (self.mode == "batch" and state.met(problem)):
                for _ in range(epochs):
                    stats = yield Sweep(sets, "epoch", rng.permutation(n))
                    if stats.gap <= EPOCH_EFFORT * estimate:
                        break
            sets.drop_idle(self.idle)
            state.raise_lower(sets.dual_value(), dual)
            if self.mode == "stream":
                upper_guess = state.lower + estimate
                allowed = stopping.allowed_gap(upper_guess, problem.C)
                if estimate <= CONFIRM_AT * allowed or unconfirmed >= CONFIRM_EVERY:
                    yield from self._confirm(sets, state)
                    unconfirmed = 0
            asked = yield Report(sets.n_planes, sets.n_support, method="working sets")
            if state.met(problem):
                state.stop = "gap"
                return
            if asked is not None:
                state.stop = asked
                return
            if unconfirmed == 0 and stall.stalled(state.gap, state.upper):
                state.stop = "stalled"
                return

    @staticmethod
    def _confirm(sets: WorkingSets, state: SolverState) -> Steps:
        w = frozen(sets.w)
        _, risk_upper = yield Confirm(sets, w)
        state.offer(w, 0.5 * float(w @ w) + risk_upper)

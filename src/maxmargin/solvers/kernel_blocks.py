"""Exact kernel machines, optimized over large blocks: the solver's loop.

improve   optimize the dual over one block (:mod:`maxmargin.duals.kernels.blocks`); this also gives F and
          D, from scores of the active samples in single precision
audit     when these meet the stopping rule: compute F of the point and D of its multipliers over all
          samples in double precision. If these do not meet the rule, continue from there; in double
          precision if rounding made the difference
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from maxmargin.core.contract.block_duals import BlockDuals
from maxmargin.core.feasible_dual import FeasibleDual
from maxmargin.core.rounding import UpperBound
from maxmargin.core.vectors import Array
from maxmargin.solvers.base import SWEEPS, StallDetector
from maxmargin.solvers.requirements import Needs
from maxmargin.solvers.session import Session

#: audit when the estimated gap is this fraction of the allowed gap
READY = 0.9
#: number of blocks after which all multipliers are optimized at once, if there are few samples
DIRECT_AFTER = 200


@dataclass(frozen=True, slots=True)
class KernelBlocks:
    """Exact solver for binary kernel machines.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from maxmargin import KernelSVC
    >>> from maxmargin.solvers import KernelBlocks
    >>> X, y = make_moons(400, noise=0.2, random_state=0)
    >>> svc = KernelSVC(method=KernelBlocks(), tol=1e-4).fit(X, y)
    >>> svc.certificate_, svc.converged_
    ('exact', True)
    """

    needs: ClassVar[Needs] = Needs(blocks=True)

    def run(self, session: Session) -> None:
        """Run the solver's loop."""
        problem, state = session.problem, session.state
        duals: BlockDuals
        if isinstance(state.memory, BlockDuals):
            duals = state.memory
        else:
            duals = state.memory = session.block_duals()
        stall, audited, audits, starting = StallDetector(*SWEEPS), False, 0, False
        direct, blocks = False, 0
        while True:
            F, D, b = duals.bounds()
            w, dual = duals.kept(b)
            state.raise_lower(D, dual)
            state.candidate = _candidate(w)
            if duals.whole:
                state.offer(w, F)
                state.candidate = None if state.w is w else state.candidate
            gap, allowed = F - D, problem.stopping.allowed_gap(F, problem.C)
            if gap <= READY * allowed:
                _audit(session, w, dual)
                audited = True
            if session.report(duals.n_rows, duals.n_support, None, "blocks", final=audited):
                return
            stalled = not starting and stall.stalled(state.gap, state.upper, allowed)
            blocks += not starting
            if (stalled or blocks == DIRECT_AFTER) and not direct:
                direct = True
                if duals.solve_directly():
                    audited, stall = False, StallDetector(*SWEEPS)
                    continue
            if stalled:
                state.stop = "stalled"
                return
            if audited:
                # double precision if all samples were active (only rounding differs), or after the first time
                duals.refresh(sharper=duals.whole or audits > 0)
                audited, audits = False, audits + 1
            stats = session.improve(duals, problem.random_state)
            starting = stats.gap_estimate == float("inf")
            if stats.new_planes == 0 and not starting:
                # nothing changes any more
                _audit(session, *duals.kept(duals.bounds()[2]))
                audited = True


def _candidate(w: Array) -> Any:
    return lambda: w


def _audit(session: Session, w: Array, dual: FeasibleDual) -> None:
    """Replace the estimates by valid bounds of this point and its multipliers."""
    problem, state = session.problem, session.state
    upper = problem.regularizer.value(w) + problem.C * session.evaluate(w).upper
    state.w, state.upper, state.candidate = w, upper, None
    state.lower, state.dual = dual.value(problem.regularizer, problem.dim, UpperBound(upper)), dual

"""Exact kernel machines by large blocks: the loop.

improve   one block of the dual (:mod:`maxmargin.risks.kernel_duals`); F and D of the whole problem come
          with it, from scores in single precision
audit     when they meet the stopping rule: F of the point and D of the multipliers in double precision.
          If these do not meet it, go on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from maxmargin.core.requests import Evaluate, Improve, OpenDuals, Report, Steps
from maxmargin.solvers.base import Problem, SolverState, StallDetector


@dataclass(frozen=True, slots=True)
class KernelBlocks:
    """Exact solver of kernel machines with two classes.

    Parameters
    ----------
    block : int, default 6000
        Rows of a block.
    inner : float, default 0.1
        The part of the violation at which a block counts as solved.

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

    block: int = 6000
    inner: float = 0.1

    def steps(self, problem: Problem, state: SolverState) -> Steps:
        """The loop."""
        duals: Any = state.duals.get("blocks")
        if duals is None:
            duals = state.duals["blocks"] = yield OpenDuals("blocks", problem.C, self)
        stall = StallDetector(window=30, patience=300)
        while True:
            F, D, b = duals.bounds()
            state.offer(duals.point(b), F)
            state.raise_lower(D, duals.dual())
            if state.met(problem):
                yield from self._audit(problem, state)
            asked = yield Report(duals.block, duals.n_support, None, "blocks")
            if state.met(problem):
                state.stop = "gap"
                return
            if asked is not None:
                state.stop = asked
                return
            if stall.stalled(state.gap, state.upper):
                state.stop = "stalled"
                return
            yield Improve(duals, 0)

    def _audit(self, problem: Problem, state: SolverState) -> Steps:
        """True bounds of what is claimed."""
        at = yield Evaluate(state.w)
        omega = problem.regularizer
        state.upper = omega.value(state.w) + problem.C * at.upper
        if state.dual is not None:
            state.lower = max(0.0, state.dual.value(omega, problem.dim))

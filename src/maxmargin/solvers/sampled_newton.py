"""Newton steps by the Hessian of a sample, for smooth losses of rows that are not in memory.

    first point   the solution over the sample
    step          -H_s^-1 grad F, where the gradient is that of all rows; then an exact line search, which
                  needs no pass over the rows
    lower bound   the reduced problem over the tangent planes of all points, as with cutting planes

A step needs two products with all rows, X w and X' g, by the engine that holds them. A fit takes two to five
steps where cutting planes take dozens. If steps no longer help, cutting planes continue with the planes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from maxmargin.core.contract.evaluation import Evaluation
from maxmargin.core.contract.requests import Evaluate, Open, Report, Steps, TakeCut, Toward
from maxmargin.core.contract.row_duals import RowSample
from maxmargin.core.cut import Cut
from maxmargin.core.line_search import FAR
from maxmargin.core.rounding import Attained
from maxmargin.core.vectors import Array, SparseVector, frozen
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.cutting_plane import QP_EFFORT, CuttingPlane, search
from maxmargin.solvers.requirements import Needs

#: steps are given up if the gap falls by less than this factor, so many times in a row
SLOW, PATIENCE = 0.7, 3


@dataclass(frozen=True, slots=True)
class SampledNewton:
    """Newton steps by the Hessian of a sample of the rows.

    For smooth losses (squared hinge, logistic), up to 4,096 weights, and at least 64 times as many samples,
    better 500 times. ``solver="auto"`` uses it for data sets on disk.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import LinearSVC
    >>> from maxmargin.solvers import SampledNewton
    >>> X = np.random.default_rng(0).normal(size=(20_000, 4))
    >>> y = X[:, 0] + X[:, 1] > np.sin(X[:, 2])
    >>> svc = LinearSVC(solver=SampledNewton()).fit(X, y)
    >>> svc.converged_, svc.n_iter_ < 10
    (True, True)
    """

    needs: ClassVar[Needs] = Needs(methods=("sample",))

    def steps(self, problem: Problem, state: SolverState) -> Steps:
        """Run the steps, then cutting planes if they do not end at the tolerance."""
        yield from steps_of_sample(problem, state)
        if state.stop is None:
            yield from CuttingPlane().steps(problem, state)


def steps_of_sample(problem: Problem, state: SolverState) -> Steps:
    """Steps until the stopping rule is met; without a stop reason if they no longer help."""
    C, omega = problem.C, problem.regularizer
    place = state.take_position("slow")
    sample: RowSample = yield Open("sample", C)
    w = frozen(sample.solution()) if place is None else state.w
    slow, before = 0 if place is None else int(place["slow"]), state.gap
    step: float | None = None
    state.place = lambda: {"slow": slow}
    at: Evaluation = yield Evaluate(w)
    cut: Cut = yield TakeCut(at)
    bundle = CuttingPlane().open_bundle(problem, state, cut, resumed=place is not None)
    while True:
        state.offer(at.w, omega.value(at.w) + C * at.upper)
        effort = QP_EFFORT * state.gap if np.isfinite(state.gap) else 0.0
        solution = bundle.solve(C, effort, Attained.by(state.upper, problem.n_examples))
        state.raise_lower(solution.lower_bound, solution.dual)
        slow = slow + 1 if state.gap > SLOW * before else 0
        before = state.gap
        asked = yield Report(len(bundle), solution.n_active, step, "sampled newton")
        if state.met(problem) or asked is not None:
            state.stop = "gap" if state.met(problem) else asked
            return
        direction = None if slow >= PATIENCE else sample.step(at.w, _gradient(problem, at.w, cut))
        if direction is None:
            return
        trial: Evaluation = yield Evaluate(frozen(at.w + direction))
        step = yield from search(problem, at, trial, 1.0)
        if not step > 0.0:
            return
        at = yield Toward(at, trial, min(step, FAR))  # type: ignore[arg-type]
        del trial
        cut = yield TakeCut(at)
        bundle.add([cut])


def _gradient(problem: Problem, w: Array, cut: Cut) -> Array:
    """The gradient of F at w, where the cut is tight."""
    plane = cut.plane.to_dense() if isinstance(cut.plane, SparseVector) else cut.plane
    return problem.regularizer.penalized(w) + problem.C * plane

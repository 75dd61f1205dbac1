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

from maxmargin.core.cut import Cut
from maxmargin.core.line_search import FAR
from maxmargin.core.vectors import Array, SparseVector, frozen
from maxmargin.solvers.base import Problem
from maxmargin.solvers.cutting_plane import CuttingPlane, ReducedProblem
from maxmargin.solvers.requirements import Needs
from maxmargin.solvers.session import Session

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

    def run(self, session: Session) -> None:
        """Run the steps, then cutting planes if they do not end at the tolerance."""
        steps_of_sample(session)
        if session.state.stop is None:
            CuttingPlane().run(session)


@dataclass(slots=True)
class SampleProgress:
    """How far the loop is: steps in a row after which the gap had hardly fallen."""

    slow: int = 0


def steps_of_sample(session: Session) -> None:
    """Steps until the stopping rule is met; without a stop reason if they no longer help."""
    problem, state, progress = session.problem, session.state, SampleProgress()
    resumed = state.track(progress)
    sample = session.row_sample()
    at = session.evaluate(state.w if resumed else frozen(sample.solution()))
    cut, step, before = session.cut(at), None, state.gap
    model = ReducedProblem(session, CuttingPlane().open_bundle(session, cut, resumed=resumed))
    while True:
        session.offer(at)
        solution = model.solve()
        progress.slow = progress.slow + 1 if state.gap > SLOW * before else 0
        before = state.gap
        if session.report(len(model.bundle), solution.n_active, step, "sampled newton"):
            return
        if progress.slow >= PATIENCE:
            return
        direction = sample.step(at.w, _gradient(problem, at.w, cut))
        if direction is None:
            return
        trial = session.evaluate(frozen(at.w + direction))
        step = session.best_step(at, trial, problem.C, 1.0)
        if not step > 0.0:
            return
        at = session.toward(at, trial, min(step, FAR))
        del trial
        cut = session.cut(at)
        model.bundle.add([cut])


def _gradient(problem: Problem, w: Array, cut: Cut) -> Array:
    """The gradient of F at w, where the cut is tight."""
    plane = cut.plane.to_dense() if isinstance(cut.plane, SparseVector) else cut.plane
    return problem.regularizer.penalized(w) + problem.C * plane

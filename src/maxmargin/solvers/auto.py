"""The portfolio: a method for the problem at hand, and another one when its gap falls too slowly.

The choice is a pure function of shape, density and what the risk offers; a switch is a function of the
gap's history, counted in visits of all rows. No clock is read, so a fit repeats bit for bit.

    coordinate       dual coordinate ascent by stages in C: sparse or dense, few or many features. First
                     wherever rows are in memory and every coordinate is penalised.
    newton           for few features: first for smooth losses (a handful of Gram matrices), and for the
                     hinge when the coordinates' outlook is worse than a dozen of them, which is so at
                     tight tolerances
    cutting planes   everything else: designs that show no rows, losses without a dual form, intercepts
                     that are not penalised; and the way on when the others stall

A method that hands over leaves its incumbent, its bounds and, as one plane, its multipliers: the next one
starts where it ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from maxmargin.core.requests import Steps
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.cutting_plane import CuttingPlane
from maxmargin.solvers.row_dual import Coordinates, SecondOrder, ascend

#: visits of all rows that a fit by cutting planes is worth: some 150 iterations
CUTTING_PLANES_WORTH = 500.0
#: above this length of w its planes and their Gram matrix cost more than the data
MANY_COORDINATES = 20_000
#: steps of a fit by Newton's method, and multiply-adds in a Gram matrix that cost one visit of an entry
NEWTON_STEPS, GRAM_SPEED = 15.0, 8.0
MANY_FEATURES = 1000


@dataclass(frozen=True, slots=True)
class Phase:
    """A method and the visits of all rows after which something else would be cheaper."""

    method: str
    budget: float


def newton_worth(problem: Problem) -> float:
    """The cost of a fit by Newton's method, in visits of all rows."""
    per_row = problem.nnz / max(1, problem.n_examples)
    return NEWTON_STEPS * (2.0 + problem.dim**2 / (GRAM_SPEED * max(1.0, per_row)))


def plan(problem: Problem) -> list[Phase]:
    """The methods for this problem, in order; the last one may take as long as it needs."""
    forever = float("inf")
    newton = "newton" in problem.methods and problem.dim <= MANY_FEATURES
    cheap = newton and newton_worth(problem) < CUTTING_PLANES_WORTH
    few = problem.dim <= MANY_COORDINATES
    last = [Phase("cutting planes", forever)]
    if newton and problem.smooth:
        return [Phase("newton", forever), *last]
    if "coordinate" not in problem.methods:
        return [Phase("newton", forever), *last] if cheap else last
    if cheap:
        return [Phase("coordinate", newton_worth(problem)), Phase("newton", forever), *last]
    if few:
        return [Phase("coordinate", CUTTING_PLANES_WORTH), *last]
    return [Phase("coordinate", forever)]


_RUN: dict[str, Callable[[Problem, SolverState, float], Steps]] = {
    "coordinate": lambda problem, state, budget: ascend(problem, state, Coordinates(), budget),
    "newton": lambda problem, state, budget: ascend(problem, state, SecondOrder(), budget),
    "cutting planes": lambda problem, state, budget: CuttingPlane().steps(problem, state),
}


@dataclass(frozen=True, slots=True)
class Auto:
    """The portfolio behind ``solver="auto"``.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from maxmargin import LinearSVC
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> svc = LinearSVC().fit(X, y)      # solver="auto"
    >>> {record["method"] for record in svc.history_} <= {"coordinate", "newton", "cutting planes"}
    True
    """

    def steps(self, problem: Problem, state: SolverState) -> Steps:
        """The methods, one after the other."""
        for phase in plan(problem):
            state.gave_up, state.stop = False, None
            yield from _RUN[phase.method](problem, state, phase.budget)
            if state.stop not in (None, "stalled"):
                return

"""A loop needs nothing but a session: a risk can be a script, and a function is a solver."""

from dataclasses import dataclass, field, replace

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LinearSVC, minimize
from maxmargin.core import Bundle, SquaredNorm
from maxmargin.core.contract.risk import Capabilities
from maxmargin.core.cut import Cut
from maxmargin.core.stopping import RelativeGap
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane
from maxmargin.solvers.base import Problem, SolverState
from maxmargin.solvers.session import Session


@dataclass
class At:
    w: np.ndarray
    value: float
    slope: float

    @property
    def upper(self):
        return self.value

    def cut(self):
        return Cut(self.value - self.slope * self.w[0], np.array([self.slope]))


@dataclass
class Scripted:
    """max(0, 1 - w) on a line, with answers that a test may replace."""

    replaced: dict = field(default_factory=dict)
    asked: list = field(default_factory=list)
    dim = n_examples = n_blocks = 1
    lower_bound, oracle, offers = 0.0, "exact", Capabilities()

    def evaluate(self, w, *, exact=True):
        self.asked.append(float(w[0]))
        at = At(w, max(0.0, 1.0 - w[0]), -1.0 if w[0] < 1.0 else 0.0)
        return replace(at, **self.replaced.get(len(self.asked), {}))


def session(risk, C=0.5, **more):
    problem = Problem.of(risk, C, SquaredNorm(), RelativeGap(1e-6), 0)
    return Session(risk, problem, SolverState(w=np.zeros(1), lower=0.0), **more)


def test_what_a_loop_asks_for():
    fit = session(Scripted())
    fit.run(CuttingPlane(line_search=False))
    assert fit.risk.asked == [0.0, 0.5]  # the model with one plane has the minimizer C
    assert (fit.state.stop, fit.state.upper, fit.passes) == ("gap", 0.375, 2)
    assert [record.n_cuts for record in fit.history] == [2]


def test_limits_and_callbacks_end_a_loop():
    for more, reason in (
        ({"max_iter": 1}, "max_iter"),
        ({"max_seconds": 0.0}, "max_seconds"),
        ({"callbacks": [lambda record: True]}, "callback"),
    ):
        fit = session(Scripted({2: {"value": 2.0}}), **more)  # the gap stays open
        fit.run(CuttingPlane(line_search=False))
        assert (fit.state.stop, len(fit.history)) == (reason, 1)


@pytest.mark.parametrize("answer", [{"value": np.nan}, {"slope": np.inf}])
def test_numbers_that_are_none_end_the_fit(answer):
    with pytest.raises(ValueError, match="NaN or infinite values"):
        session(Scripted({2: answer})).run(CuttingPlane(line_search=False))


def plain_cutting_planes(session):
    problem, w = session.problem, session.state.w
    model = Bundle(problem.dim, regularizer=problem.regularizer)
    while True:
        at = session.evaluate(w)
        session.offer(at)
        model.add([session.cut(at)])
        solution = model.solve(problem.C)
        session.state.raise_lower(solution.lower_bound, solution.dual)
        if session.report(len(model), solution.n_active):
            return
        w = solution.w


def test_a_function_is_a_solver(tmp_path):
    X = np.random.default_rng(1).normal(size=(50, 3))
    y = X[:, 0] + 0.3 * X[:, 1] ** 2 > 0.2
    options = {"loss": "hinge", "tol": 1e-6}
    theirs = LinearSVC(**options).fit(X, y)
    own = LinearSVC(solver=plain_cutting_planes, **options)
    with pytest.warns(ConvergenceWarning):
        own.set_params(max_iter=3, checkpoint=tmp_path / "three").fit(X, y)
    assert (own.n_iter_, own.converged_) == (3, False)
    own.set_params(max_iter=None).fit(X, y, resume_from=tmp_path / "three")
    assert own.converged_
    assert own.objective_ == pytest.approx(theirs.objective_, rel=2e-6)
    assert own.lower_bound_ <= theirs.objective_
    with pytest.raises(TypeError, match="a function of your own"):
        minimize(ScoreRisk(X, np.where(y, 1.0, -1.0), Hinge()), 1.0, solver="planes")


def test_numbers_that_a_function_offers_are_checked_at_the_end():
    X = np.random.default_rng(2).normal(size=(40, 2))
    risk = ScoreRisk(X, np.sign(X[:, 0]), Hinge())

    def boastful(session):
        session.offer(session.evaluate(session.state.w))
        session.state.upper = session.state.lower = 1e-3
        assert session.report()

    result = minimize(risk, 1.0, solver=boastful)
    assert not result.converged
    assert (result.objective, result.lower_bound) == (40.0, 0.0)

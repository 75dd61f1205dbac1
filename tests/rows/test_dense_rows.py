"""One dense quadratic program for a tiny problem: bounds that meet, at any scale of the features."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning

from maxmargin import LinearSVC, minimize
from maxmargin.core import Bundle, SquaredNorm
from maxmargin.losses import (
    CrammerSinger,
    EpsilonInsensitive,
    Hinge,
    SquaredEpsilonInsensitive,
    SquaredHinge,
)
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, Needs, RelativeGap
from maxmargin.solvers.row_ascent import SecondOrder, ascend

LOSSES = {
    "hinge": Hinge(),
    "squared hinge": SquaredHinge(),
    "tube": EpsilonInsensitive(0.3),
    "absolute": EpsilonInsensitive(0.0),
    "squared tube": SquaredEpsilonInsensitive(0.3),
    "classes": CrammerSinger(np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.0], [1.0, 1.0, 0.0]])),
}
losses = pytest.mark.parametrize("name", LOSSES)


@dataclass(frozen=True)
class DenseQP:
    """The dense program alone, which automatic selection uses after other methods."""

    needs: ClassVar[Needs] = Needs(methods=("dense QP",))

    def steps(self, problem, state):
        return ascend(problem, state, SecondOrder(method="dense QP"))


def problem(name, seed=0, n=25, d=8, decades=0.0, **more):
    rng = np.random.default_rng(seed)
    loss = LOSSES[name]
    X = rng.normal(size=(n, d)) * 10.0 ** rng.uniform(-decades, decades, size=d)
    y = rng.normal(size=n)
    if name == "classes":
        y = rng.integers(0, 3, n)
    elif loss.label_kind == "sign":
        y = np.sign(y)
    weight = rng.uniform(0.1, 2.0, n) * (rng.random(n) > 0.2)
    offset = rng.normal(size=n if loss.n_outputs() is None else (n, 3))
    more = {"intercept": 1.5, "offset": offset, **more}
    return ScoreRisk(X, y, loss, sample_weight=weight, **more)


def norm_of(kind, risk):
    if kind == "free intercept":
        columns = risk.rows.n_columns
        return SquaredNorm(np.arange(risk.dim - columns, risk.dim), 1e4)
    if kind == "free feature":
        return SquaredNorm(np.array([0]), 1e4)
    if kind == "signs":
        return SquaredNorm(nonnegative=np.array([0, 2, 3]))
    if kind == "floors":
        return SquaredNorm(nonnegative=np.array([1, 4]), floor=np.array([-0.2, 0.1]))
    return SquaredNorm()


@losses
@pytest.mark.parametrize("kind", ["norm", "free intercept", "free feature", "signs", "floors"])
@pytest.mark.parametrize("C", [1e-3, 1.0, 1e3])
def test_bounds_meet_and_agree_with_cutting_planes(name, kind, C):
    risk = problem(name)
    norm = norm_of(kind, risk)
    own = minimize(risk, C, solver=DenseQP(), regularizer=norm, stopping=RelativeGap(1e-7))
    assert own.converged, own.gap
    assert own.n_iter == 1
    other = minimize(risk, C, regularizer=norm, stopping=RelativeGap(1e-4), max_iter=500)
    assert own.lower_bound <= other.objective * (1.0 + 1e-9)
    assert other.lower_bound <= own.objective * (1.0 + 1e-9)
    assert own.objective <= other.objective * (1.0 + 1e-6)


@losses
@pytest.mark.parametrize("shape", [(30, 12), (6, 40)])
def test_badly_scaled_features_and_a_large_C(name, shape):
    n, d = shape
    risk = problem(name, 3, n, d, decades=4.0, offset=None)
    # 1e6 times the rounding of a score is above the tolerance if every target is met exactly
    result = minimize(risk, 1e4 if name == "absolute" else 1e6, solver=DenseQP())
    assert result.converged or result.stop_reason == "rounding", (result.gap, result.objective)


@losses
def test_multipliers_are_feasible_and_give_a_cut(name):
    C, risk = 0.7, problem(name, offset=None)
    duals = risk.row_duals("dense QP", C, SquaredNorm())
    duals.improve(0)
    alpha, weight = duals.multipliers, risk.rows.weight
    if name == "classes":
        assert (alpha >= 0.0).all()
        assert (alpha.sum(axis=1) <= C * weight * (1.0 + 1e-12)).all()
    elif not name.startswith("squared"):
        assert (np.abs(alpha) <= C * weight).all()
    assert not alpha[weight == 0.0].any()
    cut = duals.aggregate()
    for w in np.random.default_rng(1).normal(size=(20, risk.dim)):
        assert cut.offset + cut.plane @ w <= risk.evaluate(w).value + 1e-9
    bundle = Bundle(risk.dim)
    bundle.add([cut])
    assert bundle.solve(C).lower_bound == pytest.approx(duals.dual_value(C), rel=1e-9)
    same = risk.row_duals("dense QP", C, SquaredNorm())
    same.restore(duals.state())
    assert same.dual_value(C) == duals.dual_value(C)
    np.testing.assert_allclose(same.w, duals.w, rtol=1e-5, atol=1e-7)


@losses
def test_multiples_bound_the_optimum_of_any_other_C(name):
    risk = problem(name, offset=None)
    duals = risk.row_duals("dense QP", 1.0, SquaredNorm())
    duals.improve(0)
    for C in (0.01, 0.5, 1.0, 30.0):
        best = minimize(risk, C, solver=DenseQP())
        assert duals.dual_estimate(C) <= best.objective * (1.0 + 1e-9)
        duals.rescale(C, SquaredNorm())
        assert duals.dual_estimate(C) <= best.objective * (1.0 + 1e-9)
        duals.rescale(1.0, SquaredNorm())


def test_sparse_rows_of_single_precision_are_the_same_problem():
    risk = problem("hinge", offset=None)
    X = risk.rows.design.X.astype(np.float32)
    values = []
    for data in (X, sp.csr_matrix(X)):
        other = ScoreRisk(data, risk.rows.y, Hinge(), sample_weight=risk.rows.weight)
        values.append(minimize(other, 3.0, solver=DenseQP()).lower_bound)
    assert values[0] == pytest.approx(values[1], rel=1e-12)


def test_problems_that_are_too_large_or_not_piecewise_linear_are_refused():
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(2000, 60)), np.sign(rng.normal(size=2000))
    with pytest.raises(TypeError, match="too many rows or features"):
        minimize(ScoreRisk(X, y, Hinge()), 1.0, solver=DenseQP())

    class Huber(Hinge):
        def dual_terms(self, y):
            return type(super().dual_terms(y))(y, curvature=0.5)

    with pytest.raises(TypeError, match="Huber is neither"):
        minimize(ScoreRisk(X[:9], y[:9], Huber()), 1.0, solver=DenseQP())


def test_automatic_selection_takes_it_when_another_method_stalls():
    rng = np.random.default_rng(5)
    X = rng.normal(size=(25, 28)) * 10.0 ** rng.uniform(-4, 4, size=28)
    svc = LinearSVC(C=1e6).fit(X, rng.integers(0, 4, 25))
    assert svc.converged_
    assert svc.history_[-1]["method"] == "dense QP"
    assert svc.n_iter_ < 200


def test_two_classes_with_costs_return_the_weights_that_were_evaluated():
    # the two columns of weights that the solver works on have a common part here, by rounding
    rng = np.random.default_rng(3)
    X = rng.normal(size=(27, 2)) * [3e10, 5e3]
    y, C, cost = rng.integers(0, 2, 27), 2e9, np.array([[0.0, 6.6e-4], [4.8e-4, 0.0]])
    svc = LinearSVC(C, cost=cost, solver=CuttingPlane(), max_iter=40, fit_intercept=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        svc.fit(X, y)
    short = cost[y, 1 - y] - np.where(y == 1, 1.0, -1.0) * (X @ svc.coef_[0])
    F = 0.25 * svc.coef_[0] @ svc.coef_[0] + C * np.maximum(0.0, short).sum()
    assert svc.objective_ == pytest.approx(F, rel=1e-9)
    assert svc.lower_bound_ <= svc.objective_

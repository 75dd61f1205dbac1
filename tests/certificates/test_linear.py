"""lower <= F* <= upper for linear models, checked by code independent of the library."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_breast_cancer, load_iris, load_wine
from sklearn.utils.class_weight import compute_sample_weight
from tests.nightly import first
from tests.reference_optima.problems import solve_binary_qp, solve_multiclass_qp

from maxmargin import LinearSVC, LinearSVR, minimize
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import AbsoluteGap, CuttingPlane, RiskEpsilon
from maxmargin.testing import binary_objective, multiclass_objective

SOLVERS = {
    "oca": CuttingPlane(),
    "oca, mu=0.01": CuttingPlane(mu=0.01),
    "cpa": CuttingPlane(line_search=False),
    "10 planes": CuttingPlane(max_planes=10),
}


def draw(seed, n, d, classes, scale=1.0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(classes, d))
    y = np.concatenate([np.arange(classes), rng.integers(0, classes, n - classes)])
    return scale * (centers[y] + 1.5 * rng.normal(size=(n, d))), y


def assert_certified(svc, optimum, recomputed, tol):
    assert svc.objective_ == pytest.approx(recomputed, rel=1e-9)
    assert svc.lower_bound_ <= optimum * (1 + 1e-8)
    assert optimum <= svc.objective_ * (1 + 1e-8)
    assert svc.gap_ <= tol
    assert svc.gap_ == pytest.approx(
        (svc.objective_ - svc.lower_bound_) / svc.objective_, abs=1e-15
    )
    assert svc.converged_
    assert svc.stop_reason_ == "gap"
    assert svc.certificate_ == "exact"


@given(
    seed=st.integers(0, 10_000),
    log_c=st.floats(-3, 3),
    intercept=st.sampled_from(["none", "penalized", "scaled", "free"]),
    weighted=st.booleans(),
    solver=st.sampled_from(sorted(SOLVERS)),
)
def test_binary(seed, log_c, intercept, weighted, solver):
    X, y = draw(seed, 40, 3, 2)
    C = 10.0**log_c
    weight = np.random.default_rng(seed).random(len(y)) + 0.01 if weighted else None
    penalize = intercept != "free"
    scaling = 10.0 if intercept == "scaled" else 1.0
    svc = LinearSVC(
        C=C,
        tol=1e-4,
        fit_intercept=intercept != "none",
        intercept_scaling=scaling,
        penalize_intercept=penalize,
        solver=SOLVERS[solver],
        max_iter=20_000,
        loss="hinge",
    ).fit(X, y, weight)
    signed = np.where(y == 1, 1.0, -1.0)
    optimum, _ = solve_binary_qp(X, signed, C, weight, intercept != "none", scaling, penalize)
    recomputed = binary_objective(
        svc.coef_[0], svc.intercept_[0], X, signed, C, weight, scaling, penalize
    )
    assert_certified(svc, optimum, recomputed, 1e-4)


@given(
    seed=st.integers(0, 10_000),
    log_c=st.floats(-3, 2),
    free=st.booleans(),
    costly=st.booleans(),
    solver=st.sampled_from(sorted(SOLVERS)),
)
def test_multiclass(seed, log_c, free, costly, solver):
    X, y = draw(seed, 30, 2, 4)
    rng = np.random.default_rng(seed)
    C, weight = 10.0**log_c, rng.random(len(y)) + 0.01
    cost = rng.random((4, 4)) * (1 - np.eye(4)) if costly else None
    svc = LinearSVC(
        C=C,
        tol=1e-4,
        cost=cost,
        penalize_intercept=not free,
        solver=SOLVERS[solver],
        max_iter=20_000,
        multi_class="crammer_singer",
    ).fit(X, y, weight)
    optimum, _ = solve_multiclass_qp(X, y, C, cost, weight, penalize_intercept=not free)
    recomputed = multiclass_objective(
        svc.coef_, svc.intercept_, X, y, C, cost, weight, penalize_intercept=not free
    )
    assert_certified(svc, optimum, recomputed, 1e-4)


@pytest.mark.parametrize("free", [False, True])
def test_two_classes_with_costs(free):
    # two columns of weights, reported as their difference: the same decisions and the same optimum
    X, y = draw(4, 50, 3, 2)
    cost = np.array([[0.0, 1.0], [5.0, 0.0]])
    svc = LinearSVC(
        cost=cost, tol=1e-5, penalize_intercept=not free, multi_class="crammer_singer"
    ).fit(X, y)
    optimum, W = solve_multiclass_qp(X, y, 1.0, cost, penalize_intercept=not free)
    assert svc.lower_bound_ <= optimum * (1 + 1e-8) <= svc.objective_ * (1 + 2e-8)
    scores = X @ (W[1, :-1] - W[0, :-1]) + W[1, -1] - W[0, -1]
    np.testing.assert_allclose(svc.decision_function(X), scores, atol=0.05 * np.ptp(scores))
    assert svc.coef_.shape == (1, 3)


def test_unscaled_breast_cancer_is_certified():
    # scikit-learn's LinearSVC(hinge) is at twice this optimum after 100,000 iterations
    X, y = load_breast_cancer(return_X_y=True)
    svc = LinearSVC(tol=1e-6, loss="hinge").fit(X, y)
    signed = np.where(y == 1, 1.0, -1.0)
    optimum, _ = solve_binary_qp(X, signed, 1.0)
    assert optimum == pytest.approx(49.959, abs=1e-3)
    recomputed = binary_objective(svc.coef_[0], svc.intercept_[0], X, signed, 1.0)
    assert_certified(svc, optimum, recomputed, 1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("C", first(3, [1e-8, 1e-3, 1e2, 1e4]))
@pytest.mark.parametrize("loader", [load_breast_cancer, load_wine, load_iris])
def test_unscaled_data_over_many_decades(loader, C):
    X, y = loader(return_X_y=True)
    joint = {"multi_class": "crammer_singer"} if len(set(y)) > 2 else {"loss": "hinge"}
    svc = LinearSVC(C=C, max_iter=5_000, **joint).fit(X, y)
    assert svc.converged_ == (svc.gap_ <= 1e-3)
    looser = LinearSVC(
        C=C, tol=0.05, max_iter=5_000, solver=CuttingPlane(line_search=False), **joint
    ).fit(X, y)
    assert svc.lower_bound_ <= looser.objective_ * (1 + 1e-9)  # by another method
    assert looser.lower_bound_ <= svc.objective_ * (1 + 1e-9)
    if C <= 1e2:
        assert svc.converged_


def test_degenerate_data():
    y = np.array([0, 1, 0, 1])
    zeros = LinearSVC(loss="hinge").fit(np.zeros((4, 3)), y)
    assert zeros.converged_
    assert zeros.objective_ == pytest.approx(4.0)  # nothing can be learned, and that is certified
    empty_columns = LinearSVC(loss="hinge").fit(sp.csr_matrix((4, 5)), y)
    assert empty_columns.converged_
    X = np.repeat([[1.0, 2.0], [-1.0, 0.5]], 2, axis=0)
    collinear = LinearSVC(tol=1e-6, loss="hinge").fit(np.hstack([X, X, 3 * X]), [0, 0, 1, 1])
    assert collinear.converged_


def test_other_stopping_rules():
    X, y = draw(0, 200, 4, 2)
    absolute = LinearSVC(tol=AbsoluteGap(0.5), loss="hinge").fit(X, y)
    assert absolute.objective_ - absolute.lower_bound_ <= 0.5
    assert absolute.converged_
    risk = LinearSVC(
        tol=RiskEpsilon(0.1), solver=CuttingPlane(line_search=False), loss="hinge"
    ).fit(X, y)
    optimum, _ = solve_binary_qp(X, np.where(y == 1, 1.0, -1.0), 1.0)
    assert risk.objective_ - optimum <= 1.0 * 0.1 + 1e-9
    assert risk.converged_
    with pytest.raises(ValueError, match="tolerance above 0"):
        LinearSVC(tol=0.0, loss="hinge").fit(X, y)


def test_a_bound_is_never_claimed_without_proof():
    X, y = load_breast_cancer(return_X_y=True)
    svc = LinearSVC(max_iter=3, loss="hinge").fit(X, y)
    assert svc.stop_reason_ == "max_iter"
    assert not svc.converged_
    signed = np.where(y == 1, 1.0, -1.0)
    assert svc.objective_ == pytest.approx(
        binary_objective(svc.coef_[0], svc.intercept_[0], X, signed, 1.0), rel=1e-9
    )
    assert svc.lower_bound_ <= 49.959 <= svc.objective_


def test_tight_tolerances_end_with_the_bounds_reached():
    X, y = load_iris(return_X_y=True)
    svc = LinearSVC(tol=1e-16, max_iter=3_000, multi_class="crammer_singer").fit(X, y)
    assert svc.stop_reason_ in ("gap", "stalled", "rounding")
    assert svc.gap_ <= 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("scale", [0.0, 1e-9, 1e-3, 1e9])
@pytest.mark.parametrize("C", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("y", [[0, 0, 0, 1], [0, 0, 2, 1]])
def test_free_intercepts_at_extreme_scales(scale, C, y):
    X = scale * np.eye(4)
    joint = {"multi_class": "crammer_singer"} if len(set(y)) > 2 else {"loss": "hinge"}
    svc = LinearSVC(C=C, penalize_intercept=False, max_iter=500, **joint).fit(X, y)
    # in long double: where scores of 1 are sums of a large and a small number, F is dominated by rounding
    W, b = svc.coef_.astype(np.longdouble), svc.intercept_.astype(np.longdouble)
    scores = X @ W.T + b
    if len(set(y)) == 2:
        losses = np.maximum(0, 1 - np.where(np.array(y) == 1, 1, -1) * scores[:, 0])
    else:
        losses = (1 - np.eye(3)[y] + scores).max(axis=1) - scores[np.arange(4), y]
    F = float((W * W).sum() / 2 + C * losses.sum())
    # weights of 1e-9 beside an intercept of 1: their norm must not be lost to rounding. What rounding may add
    # to four losses is added to the objective.
    assert svc.objective_ >= F * (1 - 1e-9)
    assert svc.objective_ == pytest.approx(F, rel=1e-9, abs=C * 1e-14)
    assert svc.lower_bound_ <= F * (1 + 1e-9)
    if scale < 1.0:  # otherwise the optimum of 1e-18 is below the rounding of a single loss
        assert svc.converged_


@pytest.mark.parametrize("weights", ["balanced", {0: 0.2, 1: 3.0}])
def test_free_intercept_with_class_weights(weights):
    # balanced classes: the first cut's intercept entry is a sum that cancels to rounding
    X, y = load_breast_cancer(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    svc = LinearSVC(penalize_intercept=False, class_weight=weights, loss="hinge").fit(X, y)
    weight = compute_sample_weight(weights, y)
    optimum, _ = solve_binary_qp(
        X, np.where(y == 1, 1.0, -1.0), 1.0, weight, penalize_intercept=False
    )
    assert svc.converged_
    assert svc.lower_bound_ <= optimum * (1 + 1e-7) <= svc.objective_ * (1 + 2e-7)


@pytest.mark.slow
@pytest.mark.parametrize("C", [1e-170, 1e-20, 1e-10, 1e10])
@pytest.mark.parametrize("scale", [1e-10, 1e-5, 1.0])
def test_no_scale_ends_without_a_statement(C, scale):
    X, y = load_iris(return_X_y=True)
    for kind in ({}, {"fit_intercept": False}, {"penalize_intercept": False}):
        svc = LinearSVC(C=C, max_iter=60, multi_class="crammer_singer", **kind).fit(scale * X, y)
        F = multiclass_objective(
            svc.coef_, svc.intercept_, scale * X, y, C, penalize_intercept=svc.penalize_intercept
        )
        assert svc.objective_ == pytest.approx(F, rel=1e-9)
        assert svc.lower_bound_ <= F * (1 + 1e-9)


def test_bounds_that_contradict_each_other_are_not_reported():
    class Concave(Hinge):
        """Not convex: its cuts are not lower bounds."""

        value = Hinge.value

        def cut(self, scores, y, weight):
            offset, gradient = super().cut(scores, y, weight)
            return offset + 10.0, gradient

    risk = ScoreRisk(np.array([[1.0], [-1.0]]), np.array([1.0, -1.0]), Concave())
    result = minimize(risk, 1.0, max_iter=20)
    assert result.lower_bound == -np.inf
    assert result.gap == np.inf
    assert not result.converged


@pytest.mark.parametrize(("multi_class", "seed"), [("ovr", 4), ("crammer_singer", 5)])
def test_free_intercepts_of_separable_rows_are_certified(multi_class, seed):
    """F = 1e-8 beside F(0) = 1e5: intercepts are bounded by what F is in the end, not by F(0)."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(8, 20)) * 10.0 ** rng.uniform(-4.0, 4.0, 20)
    y = np.arange(8) % (2 if multi_class == "ovr" else 3)
    svc = LinearSVC(C=1e4, penalize_intercept=False, multi_class=multi_class).fit(X, y)
    assert svc.converged_, (svc.stop_reason_, svc.gap_)
    assert len(svc.history_) <= 50


@pytest.mark.parametrize("loss", ["quantile", "epsilon_insensitive"])
@pytest.mark.parametrize("seed", range(3))
def test_free_intercepts_of_targets_near_a_line_are_certified(loss, seed):
    """The same for targets of 1e-6: F = 1e-10 beside F of a constant, 1e-5."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(40, 3)) * [3e3, 1e2, 1e3]
    y = X @ [1e-10, 1e-9, 1e-9] + 1e-11 * rng.normal(size=40)
    svr = LinearSVR(loss=loss, penalize_intercept=False).fit(X, y)
    assert svr.converged_, (svr.stop_reason_, svr.gap_)
    assert len(svr.history_) <= 10

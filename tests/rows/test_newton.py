"""Newton steps over rows: bounds true at every step, few steps whatever C and the scaling."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize
from sklearn.datasets import load_breast_cancer, load_wine
from tests.reference_optima.problems import solve_binary_qp

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.duals.choice import row_duals
from maxmargin.duals.gram import Factor, RowProducts
from maxmargin.losses import Hinge, Logistic, OneClass, SquaredHinge
from maxmargin.risks import ScoreRisk

LOSSES = [Hinge(), SquaredHinge(), Logistic()]
by_name = pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)


def rows(seed=0, n=60, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, rng.uniform(0.1, 2.0, n) * (rng.random(n) > 0.1)


def run(risk, C, tol=1e-7, steps=60, omega=None, duals=None, optimum=None):
    """(steps, upper, lower, duals) when the gap is ``tol`` or the method says that it is stuck."""
    omega = omega or SquaredNorm()
    duals = duals or row_duals("newton", risk.rows, C, omega)
    upper = np.inf
    step = 0
    while step < steps:
        step += 1
        stats = duals.improve(0)
        at = risk.evaluate(duals.w.copy())
        duals.check(risk.scores(at))
        upper = min(upper, omega.value(at.w) + C * at.value)
        lower = duals.dual_estimate(C)
        if optimum is not None:
            slack = 1e-9 * abs(optimum)
            assert lower <= optimum + slack
            assert upper >= optimum - slack
            assert duals.dual_value(C) == pytest.approx(lower, rel=1e-9, abs=1e-12 * C)
        if upper - lower <= tol * upper or not np.isfinite(stats.gap_estimate):
            break
    return step, upper, lower, duals


def reference(X, y, loss, C, weight, omega=None):
    """The optimum for smooth losses by a general optimizer."""
    d = X.shape[1]
    penalty = np.ones(d)
    if omega is not None:
        penalty[omega.free] = 0.0

    def value(w):
        m = y * (X @ w)
        if isinstance(loss, Logistic):
            per_row, slope = np.logaddexp(0.0, -m), -1.0 / (1.0 + np.exp(np.minimum(m, 700.0)))
        else:
            short = np.maximum(0.0, 1.0 - m)
            per_row, slope = short**2, -2.0 * short
        return (
            0.5 * (penalty * w) @ w + C * weight @ per_row,
            penalty * w + C * X.T @ (weight * y * slope),
        )

    w = np.zeros(d)
    for _ in range(3):
        options = {"maxiter": 50_000, "maxfun": 100_000, "ftol": 1e-16, "gtol": 1e-12}
        w = scipy_minimize(value, w, jac=True, method="L-BFGS-B", options=options).x
    return value(w)[0]


@given(
    seed=st.integers(0, 10_000), log_c=st.floats(-6, 4), intercept=st.sampled_from([0.0, 1.0, 5.0])
)
def test_hinge_bounds_enclose_the_optimum_at_every_step(seed, log_c, intercept):
    X, y, weight = rows(seed)
    C = 10.0**log_c
    optimum, _ = solve_binary_qp(
        X, y, C, weight, fit_intercept=intercept != 0.0, intercept_scaling=intercept or 1.0
    )
    risk = ScoreRisk(X, y, Hinge(), sample_weight=weight, intercept=intercept)
    step, upper, lower, _ = run(risk, C, optimum=optimum)
    assert upper - lower <= 1e-7 * upper
    assert step <= 30


@given(seed=st.integers(0, 10_000), log_c=st.floats(-6, 4))
def test_smooth_bounds_enclose_the_optimum_at_every_step(seed, log_c):
    X, y, weight = rows(seed)
    C = 10.0**log_c
    for loss in (SquaredHinge(), Logistic()):
        risk = ScoreRisk(X, y, loss, sample_weight=weight)
        optimum = reference(X, y, loss, C, weight)
        step, upper, lower, _ = run(risk, C)
        assert upper - lower <= 1e-7 * upper
        assert lower <= optimum * (1 + 1e-9)
        assert upper <= optimum * (1 + 1e-6)
        assert step <= 25
        run(risk, C, optimum=upper)  # and once more, with every step's bounds against it


def degenerate():
    rng = np.random.default_rng(7)
    X, y, _ = rows(7, n=80)
    groups = [np.eye(k)[rng.integers(0, k, 80)] for k in (2, 3, 5)]
    few = np.where(np.arange(80) < 2, 1.0, -1.0)
    far = np.where(X[:, 0] > 0, 1.0, -1.0)
    return {
        "collinear one-hot": (np.hstack(groups), y),
        "duplicated rows": (np.repeat(X[:8], 10, axis=0), np.repeat(y[:8], 10)),
        "contradicting rows": (np.vstack([X, X]), np.concatenate([y, -y])),
        "zero columns": (np.hstack([X, np.zeros((80, 3))]), y),
        "all zero": (np.zeros((80, 2)), y),
        "one class tiny": (X, few),
        "one class": (X, np.ones(80)),
        "separable": (X + np.outer(far, [2.0, 0, 0, 0]), far),
        "scales from 1e-6 to 1e6": (X * 10.0 ** np.array([-6, -2, 3, 6]), y),
        "more features than rows": (rng.normal(size=(10, 40)), y[:10]),
        "one row": (X[:1], y[:1]),
    }


@by_name
@pytest.mark.parametrize("C", [1e-8, 1.0, 1e4])
@pytest.mark.parametrize("name", list(degenerate()))
def test_degenerate_data(name, C, loss):
    X, y = degenerate()[name]
    _, upper, lower, _ = run(ScoreRisk(X, y, loss, intercept=1.0), C, tol=1e-4)
    assert upper - lower <= 1e-4 * upper
    if isinstance(loss, Hinge) and C <= 1.0:
        optimum, _ = solve_binary_qp(X, y, C)
        assert lower <= optimum * (1 + 1e-8)
        assert upper >= optimum * (1 - 1e-8)


@by_name
@pytest.mark.parametrize("load", [load_breast_cancer, load_wine])
def test_features_as_they_come_and_any_C_in_a_few_steps(load, loss):
    X, codes = load(return_X_y=True)
    y = np.where(codes == 1, 1.0, -1.0)
    risk = ScoreRisk(X, y, loss, intercept=1.0)
    for log_c in range(-8, 9, 2):
        step, upper, lower, _ = run(risk, 10.0**log_c / len(y), tol=1e-5)
        assert upper - lower <= 1e-5 * upper
        # the squared hinge finds the support of a hard margin (wine, C large) one row at a time
        assert step <= (50 if isinstance(loss, SquaredHinge) else 25)


@by_name
def test_sparse_dense_and_single_precision_agree(loss):
    X, y, weight = rows(1, n=300, d=12)
    X *= np.random.default_rng(1).random(X.shape) < 0.4
    X = X.astype(np.float32)
    uppers = []
    for data in (X.astype(np.float64), X, sp.csr_matrix(X), sp.csr_matrix(X.astype(np.float64))):
        risk = ScoreRisk(data, y, loss, sample_weight=weight, intercept=1.0)
        uppers.append(run(risk, 10.0, tol=1e-9)[1])
    assert uppers == pytest.approx([uppers[0]] * 4, rel=1e-8)


@by_name
def test_two_ranges_are_the_problem_of_their_rows(loss):
    X, y, weight = rows(2, n=90)
    keep = np.r_[0:30, 55:90]
    part = ScoreRisk(X, y, loss, sample_weight=weight, intercept=1.0, ranges=[(0, 30), (55, 90)])
    alone = ScoreRisk(X[keep], y[keep], loss, sample_weight=weight[keep], intercept=1.0)
    _, upper, _, duals = run(part, 3.0, tol=1e-9)
    assert upper == pytest.approx(run(alone, 3.0, tol=1e-9)[1], rel=1e-8)
    assert not duals.multipliers[30:55].any()


@by_name
@pytest.mark.parametrize("C", [0.01, 1.0, 1e3])
def test_an_intercept_that_is_not_penalized(loss, C):
    X, y, weight = rows(3)
    omega = SquaredNorm(np.array([4]), free_bound=1e3)
    risk = ScoreRisk(X + 1.0, y, loss, sample_weight=weight, intercept=1.0)
    if isinstance(loss, Hinge):
        optimum, _ = solve_binary_qp(X + 1.0, y, C, weight, penalize_intercept=False)
    else:
        A = np.column_stack([X + 1.0, np.ones(60)])
        optimum = reference(A, y, loss, C, weight, omega)
    _, upper, lower, _ = run(risk, C, tol=1e-6, omega=omega)
    assert upper - lower <= 1e-6 * upper
    assert lower <= optimum * (1 + 1e-8)
    assert upper == pytest.approx(optimum, rel=2e-6)


def test_one_class_loss_ignores_labels():
    X, y, weight = rows(4)
    a = run(ScoreRisk(X, y, OneClass(), sample_weight=weight), 1.0)[1]
    b = run(ScoreRisk(X, np.ones(60), Hinge(), sample_weight=weight), 1.0)[1]
    assert a == b


@by_name
def test_the_multipliers_are_a_cut_of_the_risk(loss):
    X, y, weight = rows(5)
    C = 2.0
    risk = ScoreRisk(X, y, loss, sample_weight=weight, intercept=1.0)
    for steps in (1, 3, 30):
        _, _, lower, duals = run(risk, C, tol=1e-9, steps=steps)
        cut = duals.aggregate()
        rng = np.random.default_rng(0)
        for w in [duals.w.copy(), *rng.normal(size=(20, 5))]:
            assert risk.evaluate(w).value >= cut.at(w) - 1e-9
        # the best point of this one plane, by its multiple k in [0, 1]
        k = min(1.0, cut.offset / (C * cut.plane @ cut.plane))
        best = C * k * cut.offset - 0.5 * (C * k) ** 2 * cut.plane @ cut.plane
        assert best == pytest.approx(lower, rel=1e-9)


@by_name
def test_another_C_is_started_from_the_last(loss):
    X, y, weight = rows(6, n=400)
    risk = ScoreRisk(X, y, loss, sample_weight=weight, intercept=1.0)
    _, _, _, duals = run(risk, 1.0, tol=1e-6)
    for C in (2.0, 1e4, 1e-3, 1.0):
        at_once = run(risk, C, tol=1e-9)[1]
        # multiples of the old multipliers prove something for the new C at once
        assert 0.0 <= duals.dual_estimate(C) <= at_once * (1 + 1e-9)
        duals.rescale(C, SquaredNorm())
        assert duals.dual_estimate(C) <= at_once * (1 + 1e-9)
        step, upper, lower, _ = run(risk, C, tol=1e-6, duals=duals, optimum=at_once)
        assert upper - lower <= 1e-6 * upper
        assert step <= 20


@by_name
def test_multipliers_can_be_handed_over(loss):
    X, y, weight = rows(8, n=400)
    risk = ScoreRisk(X, y, loss, sample_weight=weight, intercept=1.0)
    cold, _, lower, duals = run(risk, 5.0, tol=1e-5)
    other = row_duals("newton", risk.rows, 5.0, SquaredNorm())
    other.load(duals.multipliers)
    assert other.dual_estimate(5.0) == pytest.approx(lower, rel=1e-9)
    step, upper, lower, _ = run(risk, 5.0, tol=1e-5, duals=other)
    assert upper - lower <= 1e-5 * upper
    assert step <= cold
    other.load(np.full(400, 1e9))  # far outside the box
    assert run(risk, 5.0, tol=1e-5, duals=other)[1] == pytest.approx(upper, rel=2e-5)


@by_name
def test_a_method_that_is_stuck_says_so_and_its_bound_stays_true(loss):
    X, y, _ = rows(9)
    risk = ScoreRisk(X * 1e3, y, loss, intercept=1.0)
    step, upper, lower, duals = run(risk, 1e3, tol=-1.0, steps=300)  # a gap nobody reaches
    assert step < 200
    assert duals.improve(0).gap_estimate == np.inf
    assert lower <= upper * (1 + 1e-9)
    assert lower == pytest.approx(upper, rel=1e-5)


def test_no_row_has_a_weight():
    X, y, _ = rows(10)
    risk = ScoreRisk(X, y, Hinge(), sample_weight=np.zeros(60))
    duals = row_duals("newton", risk.rows, 1.0, SquaredNorm())
    assert duals.improve(0).gap_estimate == 0.0
    assert duals.dual_value(1.0) == 0.0


@pytest.mark.parametrize("scatter", [False, True])
def test_gram_matrices_of_any_csr(scatter):
    # unsorted indices, repeated ones, empty rows
    rng = np.random.default_rng(11)
    indptr = np.concatenate([[0], np.cumsum(rng.integers(0, 7, 1300))])
    indices = rng.integers(0, 9, indptr[-1])
    X = sp.csr_matrix((rng.normal(size=indptr[-1]), indices, indptr), shape=(1300, 9))
    y = rng.choice([-1.0, 1.0], 1300)
    risk = ScoreRisk(X, y, Hinge(), intercept=3.0)
    products = RowProducts(risk.rows, y)
    products._scatter = scatter
    theta = rng.random(1300) * (rng.random(1300) < 0.7)
    A = np.column_stack([X.toarray(), np.full(1300, 3.0)])
    H, count = products.gram(theta)
    assert count == np.count_nonzero(theta)
    assert pytest.approx((A.T * theta) @ A, rel=1e-12, abs=1e-12) == H


def test_the_updated_hessian_is_the_hessian():
    X, y, weight = rows(12, n=2000, d=6)
    risk = ScoreRisk(X, y, SquaredHinge(), sample_weight=weight)
    duals = row_duals("newton", risk.rows, 1.0, SquaredNorm())
    updates = 0
    for _ in range(4):
        duals.improve(0)
        H = duals.hessian()
        updates += duals._updates
        theta = 2.0 * duals._c * (duals._m < 0.0)
        Z = X[duals.products.index]
        assert pytest.approx((Z.T * theta) @ Z + np.eye(6), rel=1e-12, abs=1e-12) == H
    assert updates > 0


def test_a_singular_matrix_is_factored_all_the_same():
    a = np.random.default_rng(13).normal(size=(5, 2))
    factor = Factor(a @ a.T)
    b = a @ np.ones(2)
    assert factor.ok
    assert (a @ a.T) @ factor.solve(b) == pytest.approx(b, rel=1e-6)
    assert not Factor(np.full((2, 2), np.nan)).ok

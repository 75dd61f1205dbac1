"""Squared hinge, logistic and one-class losses: cuts true, optima those of others' solvers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize as scipy_minimize
from scipy.optimize import minimize_scalar
from sklearn.linear_model import LogisticRegression
from sklearn.svm import LinearSVC, OneClassSVM
from tests.contracts.risk import check_risk

from maxmargin import minimize
from maxmargin.core.line_search import minimize_on_line
from maxmargin.losses import Logistic, Multinomial, OneClass, SquaredHinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import RelativeGap
from maxmargin.testing import check_loss

LOSSES = [SquaredHinge(), Logistic(), OneClass()]


def rows(seed=0, n=200, d=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, rng.uniform(0.0, 2.0, n)


@given(seed=st.integers(0, 10_000), n=st.integers(1, 40))
def test_cuts_values_slopes_and_kinks_agree(seed, n):
    y = np.random.default_rng(seed).choice([-1.0, 1.0], n)
    for loss in LOSSES:
        check_loss(loss, y, random_state=seed)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_their_risks_are_risks(loss):
    X, y, weight = rows()
    check_risk(ScoreRisk(X, y, loss, sample_weight=weight, intercept=1.0))


def solved(X, y, loss, C, weight=None, intercept=0.0):
    risk = ScoreRisk(X, y, loss, sample_weight=weight, intercept=intercept)
    result = minimize(risk, C, stopping=RelativeGap(1e-7))
    assert result.converged
    return result


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_squared_hinge_has_the_optimum_of_liblinear(C):
    X, y, weight = rows()
    result = solved(X, y, SquaredHinge(), C, weight)
    theirs = LinearSVC(C=C, fit_intercept=False, tol=1e-10, max_iter=1_000_000, dual=True)
    w = theirs.fit(X, y, sample_weight=weight).coef_[0]
    F = 0.5 * w @ w + C * weight @ np.maximum(0.0, 1.0 - y * (X @ w)) ** 2
    assert result.lower_bound <= F * (1 + 1e-9)
    assert result.objective == pytest.approx(F, rel=1e-6)
    assert result.w == pytest.approx(w, abs=1e-3 * np.abs(w).max())


@pytest.mark.parametrize("C", [1e-3, 1.0, 100.0])
def test_logistic_has_the_optimum_of_scikit_learn(C):
    X, y, weight = rows(1)
    result = solved(X, y, Logistic(), C, weight)
    theirs = LogisticRegression(C=C, fit_intercept=False, tol=1e-12, max_iter=10_000)
    w = theirs.fit(X, y, sample_weight=weight).coef_[0]
    F = 0.5 * w @ w + C * weight @ np.logaddexp(0.0, -y * (X @ w))
    assert result.lower_bound <= F * (1 + 1e-9)
    assert result.objective == pytest.approx(F, rel=1e-6)
    assert result.w == pytest.approx(w, abs=1e-3 * np.abs(w).max())


@pytest.mark.parametrize("nu", [0.1, 0.5])
def test_one_class_is_the_one_class_svm(nu):
    rng = np.random.default_rng(2)
    X = rng.normal(size=(150, 4)) + 1.0
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    # libsvm's scaling: multipliers in [0, 1] that add up to nu n, which divides v and rho alike
    theirs = OneClassSVM(kernel="linear", nu=nu, tol=1e-10).fit(X)
    v, rho = theirs.coef_[0], float(theirs.offset_[0])
    result = solved(X, np.zeros(150), OneClass(), 1.0 / rho)
    assert result.w == pytest.approx(v / rho, abs=1e-3 * np.abs(v / rho).max())


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: type(loss).__name__)
def test_the_optimum_is_that_of_a_general_optimizer(loss):
    X, y, weight = rows(3, n=60, d=3)
    result = solved(X, y, loss, 1.0, weight, intercept=1.0)
    A = np.column_stack([X, np.ones(60)])

    def F(w):
        m = A @ w if isinstance(loss, OneClass) else y * (A @ w)
        short = np.maximum(0.0, 1.0 - m)
        if isinstance(loss, Logistic):
            per_row = np.logaddexp(0.0, -m)
        else:
            per_row = short if isinstance(loss, OneClass) else short**2
        return 0.5 * w @ w + weight @ per_row

    options = {"xatol": 1e-10, "fatol": 1e-12, "maxiter": 20_000, "maxfev": 40_000}
    best = min(
        scipy_minimize(F, start, method="Nelder-Mead", options=options).fun
        for start in (result.w, np.zeros(4))
    )
    assert result.lower_bound <= best * (1 + 1e-12)
    assert result.objective == pytest.approx(F(result.w), rel=1e-12)
    assert best >= result.objective * (1 - 1e-6)


def test_scores_of_any_size_do_not_overflow():
    y, weight = np.array([1.0, 1.0, -1.0, -1.0]), np.ones(4)
    scores = np.array([1e4, -1e4, 1e4, -1e4])
    assert Logistic().value(scores, y, weight) == 2e4
    offset, gradient = Logistic().cut(scores, y, weight)
    assert np.isfinite(offset)
    assert gradient.tolist() == [0.0, -1.0, 1.0, 0.0]


@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic()])
def test_other_labels_are_refused(loss):
    with pytest.raises(ValueError, match=r"-1 or \+1"):
        ScoreRisk(np.ones((2, 1)), np.array([0, 1]), loss)


@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic()])
@pytest.mark.parametrize("C", [1e-4, 1.0, 1e4])
@pytest.mark.parametrize("guess", [1e-3, 1.0, 30.0])
def test_line_search_on_smooth_losses_takes_the_gain_in_few_rounds(loss, C, guess):
    X, y, weight = rows(4, n=2000)
    risk = ScoreRisk(X, y, loss, sample_weight=weight)
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=5), rng.normal(size=5)
    at, to, d = risk.evaluate(a), risk.evaluate(b), b - a
    if d @ a + C * at.slopes(to, np.zeros(1))[0] > 0:
        d, to = -d, risk.evaluate(2 * a - b)
    rounds = []

    class Counting:
        def slopes(self, other, ts):
            rounds.append(ts)
            return at.slopes(other, ts)

        def breakpoints(self, other, lo, hi, limit):
            return None

    k = minimize_on_line(Counting(), to, d @ d, a @ d, C, guess)

    def f(t):
        w = a + t * d
        return 0.5 * float(w @ w) + C * risk.evaluate(w).value

    best = minimize_scalar(f, bounds=(0.0, 4.0 * k), method="bounded", options={"xatol": 1e-10 * k})
    assert k > 0.0
    assert f(0.0) - f(k) >= 0.98 * (f(0.0) - best.fun)
    assert len(rounds) <= 6


def test_two_classes_are_the_fewest() -> None:
    assert Multinomial(2).n_outputs() == 2
    with pytest.raises(ValueError, match="n_classes must be an integer of at least 2, got 1"):
        Multinomial(1)

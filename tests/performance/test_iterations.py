"""The number of passes: never more than the theorems allow, independent of n, halved by the line search."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.data import datasets, require
from tests.nightly import first

from maxmargin import LinearSVC, minimize
from maxmargin.losses import CrammerSinger, Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, RiskEpsilon

CPA = CuttingPlane(line_search=False)


def theorem_5(largest_loss, squared_radius, C_mean, epsilon):
    """Joachims, Finley and Yu, theorem 5 (mean form, margin rescaling)."""
    first = max(0, math.ceil(math.log2(largest_loss / (4 * squared_radius * C_mean))))
    return first + math.ceil(16 * squared_radius * C_mean / epsilon)


@given(
    seed=st.integers(0, 10_000),
    n=st.integers(2, 80),
    d=st.integers(1, 8),
    log_c=st.floats(-2, 2),
    epsilon=st.sampled_from([0.3, 0.1, 0.01]),
    planes=st.sampled_from([None, 2, 5]),
)
def test_never_more_than_theorem_5_allows(seed, n, d, log_c, epsilon, planes):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(n, d)), rng.choice([-1.0, 1.0], n)
    C_mean = 10.0**log_c
    allowed = theorem_5(1.0, float((X**2).sum(axis=1).max()), C_mean, epsilon)
    if allowed > 20_000:
        return
    solver = CuttingPlane(line_search=False, max_planes=planes)
    result = minimize(
        ScoreRisk(X, y, Hinge()), C_mean / n, solver=solver, stopping=RiskEpsilon(epsilon * n)
    )
    # the theorem counts added constraints; our first cut is computed at w = 0 before iteration 1
    assert result.n_iter <= allowed
    assert result.stop_reason == "gap"


@pytest.mark.parametrize("k", [3, 10, 40])
def test_the_rate_is_tight(k):
    """One example, one feature, many classes: after k constraints the others are violated by 1/(k+1)."""
    risk = ScoreRisk(np.ones((1, 1)), np.zeros(1, dtype=np.int64), CrammerSinger(1 - np.eye(200)))
    seen = []
    result = minimize(
        risk,
        1.0,
        solver=CPA,
        stopping=RiskEpsilon(1.0 / (k + 1) + 1e-12),
        observer=lambda record, w: seen.append(record),
    )
    assert result.n_iter == k
    smaller = minimize(risk, 1.0, solver=CPA, stopping=RiskEpsilon(1.0 / (k + 1) - 1e-6))
    assert smaller.n_iter > k


def test_the_working_set_solution_of_the_tightness_example():
    from maxmargin.core import Bundle, Cut

    bundle = Bundle(50)
    for k in range(1, 20):
        plane = np.zeros(50)
        plane[0], plane[k] = -1.0, 1.0
        bundle.add([Cut(1.0, plane)])
        w = bundle.solve(1.0).w
        assert w[0] == pytest.approx(k / (k + 1))
        np.testing.assert_allclose(w[1 : k + 1], -1 / (k + 1))


def test_auto_gives_coordinates_up_before_the_stage_that_takes_longest():
    # each stage of C takes several times as many visits as the last, so at the third the fourth is predicted
    rng = np.random.default_rng(0)
    X = np.abs(rng.normal(size=(3000, 200))) * (rng.random((3000, 200)) < 0.4)
    X *= np.arange(1, 201) ** -0.5
    y = X @ rng.normal(size=200) + 0.3 * rng.normal(size=3000) > 0
    svc = LinearSVC(C=100.0, fit_intercept=False, loss="hinge").fit(X, y)
    first = [r for r in svc.history_ if r["method"] == "coordinate"]
    assert svc.converged_
    assert first[-1]["C"] < 100.0 == svc.history_[-1]["C"]
    assert first[-1]["oracle_calls"] < 150


@pytest.mark.data
def test_iterations_do_not_grow_with_n():
    X, y = require(datasets.covtype)
    order = np.random.default_rng(0).permutation(X.shape[0])
    counts = []
    for n in (10_000, 500_000):
        rows = order[:n]
        svc = LinearSVC(C=1e4 / n, tol=1e-3, solver=CuttingPlane(), loss="hinge").fit(
            X[rows], y[rows] == 2
        )
        assert svc.converged_
        counts.append(svc.n_iter_)
    assert max(counts) <= 1.3 * min(counts) + 5, counts


@pytest.mark.data
@pytest.mark.parametrize("name", first(1, ["rcv1", "covtype"]))
def test_the_line_search_halves_the_iterations(name):
    # C selected by held-out accuracy
    if name == "covtype":
        X, y = require(datasets.covtype)
        rows = np.random.default_rng(1).permutation(X.shape[0])[:60_000]
        X, y = X[rows], y[rows] == 2
    else:
        X, y = require(datasets.rcv1)
    n = 2 * X.shape[0] // 3
    scores = {}
    for C_mean in (1e2, 1e3, 1e4, 1e5):
        scores[C_mean] = (
            LinearSVC(C=C_mean / n, max_iter=400, loss="hinge")
            .fit(X[:n], y[:n])
            .score(X[n:], y[n:])
        )
    C = max(scores, key=scores.get) / X.shape[0]
    oca = LinearSVC(C=C, solver=CuttingPlane(), loss="hinge").fit(X, y)
    cpa = LinearSVC(C=C, solver=CPA, max_iter=20 * oca.n_iter_, loss="hinge").fit(X, y)
    assert oca.n_iter_ <= 0.5 * cpa.n_iter_, (oca.n_iter_, cpa.n_iter_, scores)

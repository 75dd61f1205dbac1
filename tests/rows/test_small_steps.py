"""Several Newton steps in one compiled call are the steps that are composed of calls."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.duals.choice import row_duals
from maxmargin.losses import EpsilonInsensitive, Hinge, SquaredEpsilonInsensitive, SquaredHinge
from maxmargin.risks import ScoreRisk

LOSSES = {
    "hinge": Hinge(),
    "squared hinge": SquaredHinge(),
    "epsilon-insensitive": EpsilonInsensitive(0.1),
    "squared epsilon-insensitive": SquaredEpsilonInsensitive(0.1),
}


def problem(seed, n, d, dtype=np.float64):
    rng = np.random.default_rng(seed)
    X = (rng.normal(size=(n, d)) * 10.0 ** rng.integers(-2, 3, d)).astype(dtype)
    y = np.where(X @ rng.normal(size=d) + rng.normal(size=n) > 0, 1.0, -1.0)
    return X, y, rng.uniform(0.1, 2.0, n) * (rng.random(n) > 0.1)


@given(
    seed=st.integers(0, 10**6),
    n=st.integers(2, 60),
    d=st.integers(1, 8),
    name=st.sampled_from(sorted(LOSSES)),
    C=st.sampled_from([1e-3, 0.1, 1.0, 100.0]),
    intercept=st.sampled_from([0.0, 1.0, 0.3]),
    dtype=st.sampled_from([np.float64, np.float32]),
)
def test_one_call_takes_the_steps_of_several(seed, n, d, name, C, intercept, dtype):
    X, y, weight = problem(seed, n, d, dtype)
    risk = ScoreRisk(X, y, LOSSES[name], sample_weight=weight, intercept=intercept)
    omega = SquaredNorm()
    at_once = row_duals("newton", risk.rows, C, omega)
    one_by_one = row_duals("newton", risk.rows, C, omega)
    assert at_once._small is not None
    one_by_one._small = None
    stats = at_once.improve(0)
    steps = round(stats.oracle_calls / at_once.n_examples)
    assert 1 <= steps <= 3
    for _ in range(steps):
        one_by_one.improve(0)
    np.testing.assert_allclose(
        at_once.w, one_by_one.w, rtol=1e-6, atol=1e-6 * np.abs(one_by_one.w).max()
    )
    assert at_once.dual_value(C) == pytest.approx(one_by_one.dual_value(C), rel=1e-6, abs=1e-9)


def test_large_or_sparse_problems_take_single_steps():
    def at_once(X, y, loss):
        return (
            row_duals("newton", ScoreRisk(X, y, loss).rows, 1.0, SquaredNorm())._small is not None
        )

    X, y, _ = problem(0, 800, 10)
    assert at_once(X, y, Hinge())
    assert not at_once(X, y, EpsilonInsensitive())  # two rows of Z for each one of X
    assert at_once(X[:400], y[:400], EpsilonInsensitive())
    assert not at_once(np.tile(X, (2, 1)), np.tile(y, 2), Hinge())
    assert not at_once(np.tile(X, 2), y, Hinge())
    assert not at_once(sp.csr_array(X), y, Hinge())


@pytest.mark.parametrize("name", LOSSES)
def test_calls_end_near_the_optimum_and_their_objective_is_that_of_the_weights(name):
    X, y, _ = problem(2, 100, 6)
    C = 1e6
    risk = ScoreRisk(X, y, LOSSES[name], intercept=1.0)
    duals = row_duals("newton", risk.rows, C, SquaredNorm())
    for _ in range(40):
        stats = duals.improve(0)
        if not np.isfinite(stats.gap_estimate):
            break
        upper = duals.dual_estimate(C) + stats.gap_estimate
        F = SquaredNorm().value(duals.w) + C * risk.evaluate(duals.w.copy()).value
        assert upper == pytest.approx(F, rel=1e-12)
        if stats.gap_estimate <= 1e-5 * upper:
            break
    assert stats.gap_estimate <= 1e-5 * upper
    again = duals.improve(0)
    assert again.oracle_calls == duals.n_examples  # one step


def test_an_unpenalized_intercept_is_fitted_by_the_same_steps():
    X, y, weight = problem(1, 50, 3)
    risk = ScoreRisk(X, y, Hinge(), sample_weight=weight, intercept=1.0)
    omega = SquaredNorm(free=np.array([3]), free_bound=1e3)
    objectives = []
    for small in (True, False):
        duals = row_duals("newton", risk.rows, 1.0, omega)
        if not small:
            duals._small = None
        for _ in range(20):
            duals.improve(0)
        objectives.append(omega.value(duals.w) + risk.evaluate(duals.w).value)
    assert objectives[0] == pytest.approx(objectives[1], rel=1e-9)

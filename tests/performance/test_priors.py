"""Last month's weights as the prior mean: fewer passes over this month's samples, with the same
certificate."""

import numpy as np

from maxmargin import GaussianPrior, LinearSVC
from maxmargin.solvers import DualCoordinate

D = 50


def months(count, n=2500, drift=0.02, seed=0):
    """Samples of successive months, whose true weights drift slowly."""
    rng = np.random.default_rng(seed)
    true = rng.normal(size=D)
    for _ in range(count):
        X = rng.normal(size=(n, D))
        yield X, np.where(X @ true / np.sqrt(D) + 0.5 * rng.normal(size=n) > 0, 1, -1)
        true = true + drift * rng.normal(size=D)


def test_updates_around_the_last_month_take_fewer_passes():
    params = {"C": 1.0, "tol": 1e-3, "solver": DualCoordinate()}
    last, cold, warm = None, 0.0, 0.0
    for X, y in months(4):
        plain = LinearSVC(**params, loss="hinge").fit(X, y)
        if last is not None:
            prior = GaussianPrior.around(last)
            update = LinearSVC(prior=prior, **params, loss="hinge").fit(X, y)
            assert update.converged_
            assert update.gap_ <= 1e-3
            # another method, from another starting point, finds the same optimum
            other = LinearSVC(prior=prior, tol=1e-5, loss="hinge").fit(X, y)
            assert update.lower_bound_ <= other.objective_ * (1 + 1e-9)
            assert other.lower_bound_ <= update.objective_ * (1 + 1e-9)
            cold += plain.history_[-1]["oracle_calls"]
            warm += update.history_[-1]["oracle_calls"]
        last = plain
    assert warm < 0.5 * cold


def test_few_new_rows_are_enough_around_the_last_month():
    (X, y), (X_new, y_new) = months(2, n=6000, seed=1)
    last = LinearSVC(C=0.02, loss="hinge").fit(X, y)
    few, test = slice(0, 100), slice(1000, None)
    fresh = LinearSVC(C=0.02, loss="hinge").fit(X_new[few], y_new[few])
    update = LinearSVC(C=0.02, prior=GaussianPrior.around(last), loss="hinge").fit(
        X_new[few], y_new[few]
    )
    assert update.score(X_new[test], y_new[test]) > fresh.score(X_new[test], y_new[test]) + 0.05

"""Margins of single samples: every method finds the optimum of an independent QP, and every bound is
valid."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.referees.problems import solve_binary_qp, solve_multiclass_qp

from maxmargin import LinearSVC
from maxmargin.core import SquaredNorm
from maxmargin.losses import Hinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import CuttingPlane, DualCoordinate, Newton

COST = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.5], [3.0, 1.0, 0.0]])


def rows(seed=0, n=90, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    margin = rng.uniform(-0.5, 3.0, n)  # some margins are negative
    margin[:5] = 0.0
    return X, rng.integers(0, 3, n), rng.uniform(0.2, 2.0, n) * (rng.random(n) > 0.1), margin


def holds(svc, best):
    assert svc.converged_
    assert svc.lower_bound_ <= best * (1.0 + 1e-8)
    assert best <= svc.objective_ * (1.0 + 1e-8)


@pytest.mark.parametrize("C", [0.05, 2.0])
@pytest.mark.parametrize("penalize", [True, False])
@pytest.mark.parametrize("solver", ["auto", CuttingPlane(), DualCoordinate(), Newton()], ids=str)
def test_two_classes(solver, C, penalize):
    X, y, weight, margin = rows()
    y = np.where(y > 0, 1, -1)
    if not penalize and isinstance(solver, DualCoordinate):
        return
    best, _ = solve_binary_qp(X, y, C, weight, penalize_intercept=penalize, margin=margin)
    svc = LinearSVC(C, tol=1e-5, penalize_intercept=penalize, solver=solver)
    holds(svc.fit(X, y, weight, sample_margin=margin), best)
    holds(svc.fit(sp.csr_matrix(X), y, weight, margin), best)


@pytest.mark.parametrize("C", [0.05, 2.0])
@pytest.mark.parametrize("penalize", [True, False])
@pytest.mark.parametrize("solver", ["auto", CuttingPlane(), DualCoordinate()], ids=str)
def test_several_classes(solver, C, penalize):
    X, y, weight, margin = rows(1)
    if not penalize and isinstance(solver, DualCoordinate):
        return
    best, _ = solve_multiclass_qp(X, y, C, COST, weight, penalize_intercept=penalize, margin=margin)
    svc = LinearSVC(C, tol=1e-5, cost=COST, penalize_intercept=penalize, solver=solver)
    holds(svc.fit(X, y, weight, sample_margin=margin), best)


def test_squares_and_one_against_the_rest():
    X, y, weight, margin = rows(2)
    one = LinearSVC(tol=1e-5, multi_class="ovr").fit(X, y, weight, sample_margin=margin)
    parts = [
        solve_binary_qp(X, np.where(y == k, 1, -1), 1.0, weight, margin=margin)[0] for k in range(3)
    ]
    holds(one, sum(parts))
    bounds = []
    for solver in (CuttingPlane(), DualCoordinate(), Newton()):
        svc = LinearSVC(tol=1e-6, loss="squared_hinge", solver=solver)
        svc.fit(X, np.where(y > 0, 1, -1), weight, sample_margin=margin)
        w, b = svc.coef_[0], svc.intercept_[0]
        short = np.maximum(0.0, margin - np.where(y > 0, 1, -1) * (X @ w + b))
        assert svc.objective_ == pytest.approx(0.5 * (w @ w + b * b) + weight @ short**2, rel=1e-9)
        bounds.append((svc.lower_bound_, svc.objective_))
    assert max(low for low, _ in bounds) <= min(up for _, up in bounds) * (1 + 1e-12)


def test_margins_of_one_are_no_margins():
    X, y, weight, _ = rows(3)
    plain = LinearSVC().fit(X, y, weight)
    ones = LinearSVC().fit(X, y, weight, sample_margin=np.ones(len(y)))
    assert ones.coef_.tobytes() == plain.coef_.tobytes()


def test_a_common_margin_is_a_scale():
    # max(0, m - y <w, x>) = m max(0, 1 - y <w / m, x>): w is m times that of C / m, and F is m^2 times its F
    X, y, weight, _ = rows(4)
    y = np.where(y > 0, 1, -1)
    wide = LinearSVC(0.6, tol=1e-7).fit(X, y, weight, sample_margin=np.full(len(y), 3.0))
    plain = LinearSVC(0.2, tol=1e-7).fit(X, y, weight)
    assert wide.objective_ == pytest.approx(9.0 * plain.objective_, rel=1e-6)


def test_warm_starts_with_other_margins_keep_the_bounds():
    X, y, weight, margin = rows(5)
    y = np.where(y > 0, 1, -1)
    svc = LinearSVC(tol=1e-5, warm_start=True, solver=DualCoordinate())
    svc.fit(X, y, weight)
    best, _ = solve_binary_qp(X, y, 1.0, weight, margin=margin)
    holds(svc.fit(X, y, weight, sample_margin=margin), best)


def test_what_offsets_cannot_have():
    X, y, _, margin = rows(6)
    for bad, word in ((np.ones(3), "but must have shape"), (np.full(90, np.inf), "infinite")):
        with pytest.raises(ValueError, match=word):
            LinearSVC().fit(X, y, sample_margin=bad)
    with pytest.raises(ValueError, match="offset"):
        ScoreRisk(X, np.ones(90), Hinge(), offset=np.ones((90, 2)))
    risk = ScoreRisk(X, np.ones(90), Hinge(), offset=1.0 - margin)
    assert risk.methods(SquaredNorm()) >= {"coordinate", "newton"}

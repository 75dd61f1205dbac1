"""Offsets of the scores: every method finds the optimum of an independent QP, and every bound is valid.

A hinge loss of margin 0 with offsets -y m requires the margins m."""

import numpy as np
import pytest
import scipy.sparse as sp
from tests.reference_optima.problems import solve_binary_qp, solve_multiclass_qp

from maxmargin import minimize
from maxmargin.core import SquaredNorm
from maxmargin.losses import CrammerSinger, Hinge, SquaredHinge
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import Auto, CuttingPlane, DualCoordinate, Newton, RelativeGap

COST = np.array([[0.0, 1.0, 2.0], [0.5, 0.0, 1.5], [3.0, 1.0, 0.0]])


def rows(seed=0, n=90, d=4):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    margin = rng.uniform(-0.5, 3.0, n)  # some margins are negative
    margin[:5] = 0.0
    return X, rng.integers(0, 3, n), rng.uniform(0.2, 2.0, n) * (rng.random(n) > 0.1), margin


def holds(X, y, loss, weight, offset, C, solver, best):
    risk = ScoreRisk(X, y, loss, sample_weight=weight, intercept=1.0, offset=offset)
    found = minimize(risk, C, solver=solver, stopping=RelativeGap(1e-5))
    assert found.converged
    assert found.lower_bound <= best * (1.0 + 1e-8)
    assert best <= found.objective * (1.0 + 1e-8)


@pytest.mark.parametrize("C", [0.05, 2.0])
@pytest.mark.parametrize("solver", [Auto(), CuttingPlane(), DualCoordinate(), Newton()], ids=str)
def test_two_classes(solver, C):
    X, y, weight, margin = rows()
    y = np.where(y > 0, 1.0, -1.0)
    best, _ = solve_binary_qp(X, y, C, weight, margin=margin)
    for given in (X, sp.csr_matrix(X)):
        holds(given, y, Hinge(margin=0.0), weight, -y * margin, C, solver, best)


@pytest.mark.parametrize("C", [0.05, 2.0])
@pytest.mark.parametrize("solver", [Auto(), CuttingPlane(), DualCoordinate()], ids=str)
def test_several_classes(solver, C):
    X, y, weight, margin = rows(1)
    best, _ = solve_multiclass_qp(X, y, C, COST, weight, margin=margin)
    zero, offset = CrammerSinger(np.zeros((3, 3))), margin[:, None] * COST[y]
    holds(X, y, zero, weight, offset, C, solver, best)


def test_squares():
    X, y, weight, margin = rows(2)
    y = np.where(y > 0, 1.0, -1.0)
    bounds = []
    for solver in (CuttingPlane(), DualCoordinate(), Newton()):
        risk = ScoreRisk(
            X, y, SquaredHinge(margin=0.0), sample_weight=weight, intercept=1.0, offset=-y * margin
        )
        found = minimize(risk, 1.0, solver=solver, stopping=RelativeGap(1e-6))
        w = found.w
        short = np.maximum(0.0, margin - y * (X @ w[:-1] + w[-1]))
        assert found.objective == pytest.approx(0.5 * w @ w + weight @ short**2, rel=1e-9)
        bounds.append((found.lower_bound, found.objective))
    assert max(low for low, _ in bounds) <= min(up for _, up in bounds) * (1 + 1e-12)


def test_what_offsets_cannot_have():
    X, _, _, margin = rows(6)
    with pytest.raises(ValueError, match="offset"):
        ScoreRisk(X, np.ones(90), Hinge(), offset=np.ones((90, 2)))
    risk = ScoreRisk(X, np.ones(90), Hinge(), offset=1.0 - margin)
    assert risk.methods(SquaredNorm()) >= {"coordinate", "newton"}

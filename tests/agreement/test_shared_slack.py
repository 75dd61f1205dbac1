"""Planes of one example share its slack: steps between wrong planes, and working sets that never reject a
plane.

This is Ramanan's fourth case: the cap is active, all weight is on one wrong plane, and another one has the
larger gradient. A step with the true output can move neither, because its multiplier is zero.
"""

import numpy as np
import pytest
from tests.reference_optima.problems import solve_multiclass_qp, solve_structured_qp
from tests.tiny_tasks import TinyChain, TinyMulticlass

from maxmargin import SequenceTagger, StructuredSVM, minimize
from maxmargin.compiled.simplex import simplex_gap, solve_simplex
from maxmargin.core import SquaredNorm
from maxmargin.losses import CrammerSinger
from maxmargin.risks import ScoreRisk
from maxmargin.solvers import DualCoordinate, RelativeGap
from maxmargin.tasks import plane_sets as plain_sets
from maxmargin.tasks.chains import working_sets as chain_sets


def ascend_with_the_truth(planes, losses, caps, sweeps=2000):
    """Dual ascent by single steps alone; returns (dual value, gap) at its end. ``planes[i]`` has a row per
    wrong output; alpha_ij >= 0 with sum_j alpha_ij <= c_i."""
    alpha = [np.zeros(len(P)) for P in planes]
    w = np.zeros(planes[0].shape[1])
    for _ in range(sweeps):
        moved = 0.0
        for P, loss, a, cap in zip(planes, losses, alpha, caps, strict=True):
            for j in range(len(P)):
                g, h = loss[j] + P[j] @ w, P[j] @ P[j]
                step = np.clip(g / h, -a[j], max(0.0, cap - a.sum()))
                a[j] += step
                w -= step * P[j]
                moved += abs(step)
        if moved < 1e-13:
            break
    lower = sum(a @ loss for a, loss in zip(alpha, losses, strict=True)) - 0.5 * w @ w
    upper = 0.5 * w @ w + sum(
        cap * max(0.0, (loss + P @ w).max())
        for P, loss, cap in zip(planes, losses, caps, strict=True)
    )
    return lower, upper - lower


def crammer_singer_planes(X, y, cost):
    K = len(cost)
    planes, losses = [], []
    for x, truth in zip(X, y, strict=True):
        wrong = [k for k in range(K) if k != truth]
        P = np.zeros((len(wrong), K, len(x)))
        for j, k in enumerate(wrong):
            P[j, k], P[j, truth] = x, -x
        planes.append(P.reshape(len(wrong), -1))
        losses.append(cost[truth, wrong])
    return planes, losses


def test_the_figure():
    # one row x = 1 of class 0 among three, cost 2, c = 1/2: all weight on class 1 at first
    alpha, g = np.array([0.0, 0.5, 0.0]), np.array([0.0, 1.0, 1.5])
    D2 = np.array([[0.0, 2.0, 2.0], [2.0, 0.0, 2.0], [2.0, 2.0, 0.0]])
    room = alpha[0]
    singles = [np.clip(g[j] / D2[j, 0], -alpha[j], room) for j in (1, 2)]
    assert singles == [0.0, 0.0]  # nothing moves
    assert simplex_gap(alpha, g) == 0.25  # but this is not the optimum
    solve_simplex(alpha, g, D2, 1e-14, 100)
    np.testing.assert_allclose(alpha, [0.0, 0.25, 0.25])
    assert simplex_gap(alpha, g) == pytest.approx(0.0, abs=1e-14)


def problem():
    rng = np.random.default_rng(3)
    X, y = rng.normal(size=(12, 3)) + 1.0, np.arange(12) % 4
    cost = 1.0 + rng.random((4, 4))
    np.fill_diagonal(cost, 0.0)
    return X, y, cost


def test_classes_pass_where_the_truth_alone_stalls():
    X, y, cost = problem()
    C = 0.05
    best = solve_multiclass_qp(X, y, C=C, cost=cost, fit_intercept=False)[0]
    planes, losses = crammer_singer_planes(X, y, cost)
    lower, gap = ascend_with_the_truth(planes, losses, np.full(len(y), C))
    assert lower < best * (1.0 - 1e-3)  # it stalls ...
    assert gap > 1e-3 * best
    risk = ScoreRisk(X, y, CrammerSinger(cost))
    duals = risk.row_duals("coordinate", C, SquaredNorm())
    for seed in range(200):
        duals.improve(seed)
    # ... and coordinate ascent does not
    assert duals.dual_value(C) == pytest.approx(best, rel=1e-7)
    result = minimize(risk, C, solver=DualCoordinate(), stopping=RelativeGap(1e-6))
    assert result.converged
    assert result.lower_bound <= best * (1.0 + 1e-9)
    assert best <= result.objective * (1.0 + 1e-9)


def test_plain_sets_pass_where_the_truth_alone_stalls():
    X, y, cost = problem()
    C = 0.05
    best, _ = solve_structured_qp(
        TinyMulticlass(cost), list(X), list(y), C, outputs=lambda x: range(4)
    )
    planes, losses = crammer_singer_planes(X, y, cost)
    lower, gap = ascend_with_the_truth(planes, losses, np.full(len(y), C))
    assert lower < best * (1.0 - 1e-3)
    assert gap > 1e-3 * best
    svm = StructuredSVM(TinyMulticlass(cost), C, tol=1e-6).fit(list(X), list(y))
    assert svm.converged_
    assert svm.lower_bound_ <= best * (1.0 + 1e-9)
    assert svm.lower_bound_ == pytest.approx(best, rel=1e-6)


# -- full working sets -----------------------------------------------------------------------------


def with_room(monkeypatch, module, kind, room):
    """Start working sets with this capacity; return the list of the largest capacities over time."""
    seen, make = [], kind._storage

    def storage(self, caps, sizes, *more):
        seen.append(int(np.max(sizes)))
        return make(self, caps, sizes, *more)

    monkeypatch.setattr(module, "FIRST_CAPACITY", room)
    monkeypatch.setattr(kind, "_storage", storage)
    return seen


def chains(n=12):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(3, 2)) for _ in range(n)]
    return X, [tuple(int(k) for k in rng.integers(0, 2, 3)) for _ in X]


@pytest.mark.parametrize("room", [1, 2, 3])
@pytest.mark.parametrize("idle", [1, 8])
def test_plain_sets_with_little_room_refuse_nothing(monkeypatch, room, idle):
    X, Y = chains()
    solver = DualCoordinate(idle=idle)
    plenty = StructuredSVM(TinyChain(), 0.5, tol=1e-6, solver=solver).fit(X, Y)
    rooms = with_room(monkeypatch, plain_sets, plain_sets.PlainWorkingSets, room)
    tight = StructuredSVM(TinyChain(), 0.5, tol=1e-6, solver=solver).fit(X, Y)
    assert tight.converged_
    assert tight.gap_ <= 1e-6
    assert tight.coef_.tobytes() == plenty.coef_.tobytes()  # only the storage differs
    assert max(rooms) > room  # some set was full and grew


@pytest.mark.parametrize("room", [1, 2, 3])
@pytest.mark.parametrize("idle", [1, 8])
def test_chain_sets_with_little_room_refuse_nothing(monkeypatch, room, idle):
    rng = np.random.default_rng(1)
    X = [[[f"w{k}"] for k in rng.integers(0, 6, 6)] for _ in range(10)]
    y = [[str(k) for k in rng.integers(0, 3, 6)] for _ in X]
    solver = DualCoordinate(idle=idle)
    plenty = SequenceTagger(C=1.0, tol=1e-6, solver=solver).fit(X, y)
    rooms = with_room(monkeypatch, chain_sets, chain_sets.ChainWorkingSets, room)
    tight = SequenceTagger(C=1.0, tol=1e-6, solver=solver).fit(X, y)
    assert tight.converged_
    assert tight.gap_ <= 1e-6
    assert (tight.objective_, tight.lower_bound_) == (plenty.objective_, plenty.lower_bound_)
    assert max(rooms) > room  # some set was full and grew

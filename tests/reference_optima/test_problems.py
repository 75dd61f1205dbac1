"""The referee's optima against scipy's general-purpose optimizers and against theory."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from tests.reference_optima import optimum
from tests.reference_optima.kernel import solve_kernel_qp
from tests.reference_optima.problems import (
    brute_force_objective,
    solve_binary_qp,
    solve_multiclass_qp,
    solve_reduced_qp,
    solve_structured_qp,
)
from tests.tiny_tasks import TinyChain, TinyMulticlass

from maxmargin.core.vectors import sparsify
from maxmargin.testing import binary_objective, kernel_objective, multiclass_objective

ROOT = Path(__file__).resolve().parents[2]
seeds = st.integers(0, 2**32 - 1)


def _slsqp(planes, offsets, groups, caps, penalized):
    """The same problem with slacks by sequential quadratic programming: another method altogether."""
    d, n = planes.shape[1], len(caps)

    def value(z):
        return 0.5 * (z[:d] ** 2)[penalized].sum() + caps @ z[d:]

    def slope(z):
        return np.concatenate([np.where(penalized, z[:d], 0.0), caps])

    constraints = [
        {"type": "ineq", "fun": lambda z: z[d:][groups] - offsets - planes @ z[:d]},
        {"type": "ineq", "fun": lambda z: z[d:]},
    ]
    start = np.concatenate([np.zeros(d), np.full(n, offsets.max())])
    found = minimize(
        value,
        start,
        jac=slope,
        constraints=constraints,
        method="SLSQP",
        options={"ftol": 1e-14, "maxiter": 1000},
    )
    return found.fun


@pytest.mark.parametrize("penalize", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_binary_against_scipy(seed, penalize):
    rng = np.random.default_rng(seed)
    X, y, s = rng.normal(size=(12, 2)), rng.choice([-1.0, 1.0], 12), rng.random(12) + 0.1
    F, w = solve_binary_qp(X, y, 2.0, s, intercept_scaling=2.0, penalize_intercept=penalize)
    planes = -y[:, None] * np.column_stack([X, np.full(12, 2.0)])
    penalized = np.array([True, True, penalize])
    other = _slsqp(planes, np.ones(12), np.arange(12), 2.0 * s, penalized)
    assert pytest.approx(other, rel=1e-6) == F
    at = binary_objective(w[:2], w[2], X, y, 2.0, s, 2.0, penalize)
    assert at == pytest.approx(F, rel=1e-12)


@given(seeds, st.booleans(), st.sampled_from([0.01, 1.0, 100.0]))
def test_no_point_is_better_than_the_optimum(seed, penalize, C):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(15, 3)), rng.integers(0, 3, 15)
    cost = rng.random((3, 3)) * (1.0 - np.eye(3))
    F, w = solve_multiclass_qp(X, y, C, cost, penalize_intercept=penalize, n_classes=3)
    at = multiclass_objective(w[:, :3], w[:, 3], X, y, C, cost, penalize_intercept=penalize)
    assert at == pytest.approx(F, rel=1e-9)
    for size in (1e-6, 1e-3, 1e-1):
        v = w + size * rng.normal(size=w.shape)
        nearby = multiclass_objective(v[:, :3], v[:, 3], X, y, C, cost, penalize_intercept=penalize)
        assert nearby >= F * (1 - 1e-9)


def test_zero_weights_drop_out_and_doubled_weights_double():
    rng = np.random.default_rng(1)
    X, y = rng.normal(size=(20, 3)), rng.choice([-1, 1], 20)
    s = (rng.random(20) < 0.5).astype(float)
    kept = s > 0
    assert solve_binary_qp(X, y, 1.0, s)[0] == pytest.approx(
        solve_binary_qp(X[kept], y[kept], 1.0)[0], rel=1e-9
    )
    assert solve_binary_qp(X, y, 1.0, np.full(20, 2.0))[0] == pytest.approx(
        solve_binary_qp(np.vstack([X, X]), np.r_[y, y], 1.0)[0], rel=1e-9
    )
    assert solve_binary_qp(X, y, 1.0, np.zeros(20))[0] == 0.0


def test_structured_equals_multiclass():
    rng = np.random.default_rng(2)
    X, Y = list(rng.normal(size=(10, 2))), rng.integers(0, 3, 10).tolist()
    cost = rng.integers(1, 4, (3, 3)) * (1.0 - np.eye(3))
    task, s = TinyMulticlass(cost), rng.random(10)
    F, w = solve_structured_qp(task, X, Y, 3.0, task.outputs, s)
    G, W = solve_multiclass_qp(np.array(X), Y, 3.0, cost, s, fit_intercept=False)
    assert pytest.approx(G, rel=1e-9) == F
    np.testing.assert_allclose(w, W.ravel(), atol=1e-5)


@pytest.mark.parametrize("rescaling", ["margin", "slack"])
def test_chain_against_scipy(rescaling):
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(n, 1)) for n in (2, 3, 2)]
    Y = [(0, 1), (1, 1, 0), (1, 0)]
    task = TinyChain()
    F, w = solve_structured_qp(task, X, Y, 0.7, task.outputs, rescaling=rescaling)
    at = brute_force_objective(task, X, Y, w, 0.7, task.outputs, rescaling=rescaling)
    assert at == pytest.approx(F, rel=1e-9)
    planes, offsets, groups = [], [], []
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        for o in task.outputs(x):
            delta = task.loss(y, o)
            gap = task.joint_feature(x, o).to_dense() - task.joint_feature(x, y).to_dense()
            planes.append(gap * (delta if rescaling == "slack" else 1.0))
            offsets.append(delta)
            groups.append(i)
    penalized = np.ones(len(w), dtype=bool)
    other = _slsqp(
        np.array(planes), np.array(offsets), np.array(groups), np.full(3, 0.7), penalized
    )
    assert pytest.approx(other, rel=1e-6) == F


@given(seeds, st.sampled_from([0.01, 1.0, 50.0]))
def test_reduced_dual_is_feasible_and_no_feasible_point_is_better(seed, C):
    rng = np.random.default_rng(seed)
    planes, offsets = rng.normal(size=(8, 4)) - 0.3, rng.random(8) * 3
    blocks = np.array([0, 1, 0, 1, 2, 2, 0, 1])
    value, alpha = solve_reduced_qp(planes, offsets, C, blocks)

    def dual(a):
        return offsets @ a - 0.5 * ((a @ planes) ** 2).sum()

    assert dual(alpha) == pytest.approx(value, rel=1e-12)
    assert (alpha >= 0).all()
    assert (np.bincount(blocks, alpha) <= C * (1 + 1e-12)).all()
    for _ in range(20):
        other = rng.random(8) * rng.choice([0.0, 1.0], 8)
        other *= (C / np.maximum(np.bincount(blocks, other, 3), 1e-9))[blocks] * rng.random()
        assert dual(other) <= value + 1e-9 * max(1.0, value)
        mixed = 0.999 * alpha + 0.001 * other
        assert dual(mixed) <= value + 1e-9 * max(1.0, value)


def test_reduced_takes_sparse_planes_and_caps_per_block():
    planes = np.zeros((2, 3000))
    planes[0, 5], planes[1, 7] = -1.0, -1.0
    value, alpha = solve_reduced_qp([sparsify(p) for p in planes], [1.0, 1.0], [0.25, 9.0], [0, 1])
    np.testing.assert_allclose(alpha, [0.25, 1.0], rtol=1e-7)
    assert value == pytest.approx(0.25 - 0.03125 + 0.5, rel=1e-9)


def test_an_unproved_optimum_is_an_error(monkeypatch):
    def lazy(program, scaling, unit, accuracy):
        return np.zeros(program.size), np.zeros(len(program.h)), np.zeros(program.size)

    monkeypatch.setattr(optimum, "solve", lazy)
    with pytest.raises(ArithmeticError, match="not accurate enough"):
        solve_binary_qp([[1.0], [-1.0]], [1, -1], 1.0)


def test_nothing_of_the_library_is_imported():
    code = "import sys, tests.reference_optima.{}; assert not [m for m in sys.modules if 'maxmargin' in m]"
    for path in Path(optimum.__file__).parent.glob("[a-z]*.py"):
        if not path.name.startswith("test_"):
            subprocess.run([sys.executable, "-c", code.format(path.stem)], check=True, cwd=ROOT)


@pytest.mark.parametrize("penalize", [True, False])
def test_separable_data_and_a_large_C_are_still_proved(penalize):
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(40, 100)), rng.integers(0, 4, 40)
    F, w = solve_multiclass_qp(X, y, 1e4, penalize_intercept=penalize)
    at = multiclass_objective(w[:, :100], w[:, 100], X, y, 1e4, penalize_intercept=penalize)
    assert at == pytest.approx(F, rel=1e-8)


@given(
    seed=st.integers(0, 10_000), log_c=st.floats(-3, 3), free=st.booleans(), weighted=st.booleans()
)
def test_agrees_with_the_linear_program(seed, log_c, free, weighted):
    rng = np.random.default_rng(seed)
    n = int(rng.integers(3, 30))
    X = rng.normal(size=(n, 3))
    y = np.where(X[:, 0] + 0.7 * rng.normal(size=n) > 0, 1.0, -1.0)
    y[:2] = 1.0, -1.0
    weight = rng.random(n) + 0.01 if weighted else None
    C = 10.0**log_c
    found = solve_kernel_qp(X @ X.T, y, C, weight, free)
    best, _ = solve_binary_qp(X, y, C, weight, free, penalize_intercept=False)
    assert found.lower <= best * (1 + 1e-8)
    assert best <= found.upper * (1 + 1e-8)
    assert found.upper - found.lower <= 1e-9 * found.upper
    F = kernel_objective(X @ X.T, y, C, found.coef, found.intercept, weight)
    assert pytest.approx(found.upper, rel=1e-9) == F


def test_rows_of_weight_zero_and_a_single_class():
    found = solve_kernel_qp(np.eye(3), [1, 1, -1], 2.0, [1.0, 0.0, 1.0])
    assert found.coef[1] == 0.0
    assert found.lower == pytest.approx(1.0)
    alone = solve_kernel_qp(np.eye(2), [1, 1], 2.0)
    assert (alone.lower, alone.upper) == (0.0, 0.0)  # the intercept does it

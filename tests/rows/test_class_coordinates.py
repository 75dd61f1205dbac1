"""The Crammer-Singer dual point: always feasible, its value true, its limit the optimum."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.reference_optima.problems import solve_multiclass_qp

from maxmargin import LinearSVC
from maxmargin.core import Bundle, SquaredNorm
from maxmargin.duals.crammer_singer import ClassCoordinates
from maxmargin.losses import CrammerSinger
from maxmargin.risks import ScoreRisk
from maxmargin.testing import multiclass_objective


def problem(seed=0, n=60, d=5, K=4, sparse=False, intercept=0.7, dtype=np.float64, ranges=None):
    """Rows that do not separate, any cost matrix, weights of which some are zero."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.7)
    y = rng.integers(0, K, n)
    X[np.arange(n), y % d] += 1.0
    X[:2] = 0.0  # rows of zeros
    X = X.astype(dtype)
    cost = rng.random((K, K)) + 0.5
    np.fill_diagonal(cost, 0.0)
    weight = rng.random(n) * (rng.random(n) < 0.8)
    return ScoreRisk(
        sp.csr_matrix(X) if sparse else X,
        y,
        CrammerSinger(cost),
        sample_weight=weight,
        intercept=intercept,
        ranges=ranges,
    )


def dense_rows(rows):
    design = rows.design
    if hasattr(design, "X"):
        return design.X.astype(np.float64)
    return sp.csr_matrix(
        (design.data, design.indices, design.indptr), shape=design.shape, dtype=np.float64
    ).toarray()


def objective(rows, w, C):
    """F by the referee."""
    inside = np.concatenate([np.arange(lo, hi) for lo, hi in rows.ranges])
    W = w.reshape(-1, rows.n_columns)
    d = rows.design.shape[1]
    bias = rows.intercept * W[d] if rows.intercept else np.zeros(rows.n_columns)
    return multiclass_objective(
        W[:d].T,
        bias,
        dense_rows(rows)[inside],
        rows.y[inside],
        C,
        cost=rows.loss.cost,
        weight=rows.weight[inside],
        intercept_scaling=rows.intercept or 1.0,
    )


def independent(duals):
    """(w, dual value) from the multipliers, in plain NumPy."""
    rows, alpha = duals.rows, duals.multipliers
    X = dense_rows(rows)
    if rows.intercept:
        X = np.hstack([X, np.full((len(X), 1), rows.intercept)])
    used = rows.indices()
    coef = -alpha[used]
    coef[np.arange(len(used)), rows.y[used]] += duals.C * rows.weight[used]
    W = X[used].T @ coef
    offset = (alpha[used] * rows.loss.cost[rows.y[used]]).sum()
    return W.ravel(), offset - 0.5 * (W**2).sum()


def assert_feasible(duals):
    rows, alpha = duals.rows, duals.multipliers
    used = rows.indices()
    assert (alpha >= 0.0).all()
    assert alpha[used].sum(axis=1) == pytest.approx(duals.C * rows.weight[used], rel=1e-12)
    outside = np.ones(len(alpha), dtype=bool)
    outside[used] = False
    assert not alpha[outside].any()


def exact_check(risk, duals):
    duals.check(risk.scores(risk.evaluate(duals.w)))


def run(risk, C, epochs=2000, check_every=10, goal=1e-10):
    """Epochs with checks until the visited gap of a full epoch is small."""
    duals = ClassCoordinates(risk.rows, C)
    for seed in range(epochs):
        duals.improve(seed, 5)
        if seed % check_every == 0:
            exact_check(risk, duals)
            upper = objective(risk.rows, duals.w, C)
            if upper - duals.dual_estimate(C) <= goal * upper:
                break
    return duals


@given(
    seed=st.integers(0, 1000),
    K=st.sampled_from([2, 3, 7, 8, 9, 16, 17, 25]),
    d=st.integers(1, 9),
    log_c=st.floats(-3, 3),
    sparse=st.booleans(),
    intercept=st.sampled_from([0.0, 1.0, 3.0]),
)
@settings(max_examples=30, deadline=None)
def test_dual_point_is_feasible_and_its_value_true(seed, K, d, log_c, sparse, intercept):
    C = 10.0**log_c
    risk = problem(seed, d=d, K=K, sparse=sparse, intercept=intercept)
    duals = ClassCoordinates(risk.rows, C)
    before = duals.dual_value(C)
    for epoch in range(6):
        duals.improve(epoch, 2)
        assert_feasible(duals)
        w, value = independent(duals)
        assert duals.w == pytest.approx(w, rel=1e-9, abs=1e-9 * C)
        assert duals.dual_estimate(C) == pytest.approx(value, rel=1e-9, abs=1e-11 * C)
        assert value >= before - 1e-9 * abs(before)
        assert value <= objective(risk.rows, w, C) * (1 + 1e-12)
        before = value
    assert duals.dual_value(C) == pytest.approx(value, rel=1e-12)
    assert duals.w == pytest.approx(w, rel=1e-11, abs=1e-12 * C)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("K", [2, 4, 9])
@pytest.mark.parametrize("C", [0.05, 2.0])
def test_epochs_reach_the_optimum_of_the_interior_point_method(sparse, K, C):
    risk = problem(1, K=K, sparse=sparse)
    rows = risk.rows
    reference, _ = solve_multiclass_qp(
        dense_rows(rows),
        rows.y,
        C,
        cost=rows.loss.cost,
        weight=rows.weight,
        intercept_scaling=rows.intercept,
    )
    duals = run(risk, C)
    assert duals.dual_value(C) == pytest.approx(reference, rel=1e-8)
    assert objective(rows, duals.w, C) == pytest.approx(reference, rel=1e-8)


def test_two_ranges_are_the_problem_of_their_rows_alone():
    ranges = [(3, 20), (31, 55)]
    part = problem(2, ranges=ranges)
    rows, inside = part.rows, np.r_[3:20, 31:55]
    reference, _ = solve_multiclass_qp(
        dense_rows(rows)[inside],
        rows.y[inside],
        1.0,
        cost=rows.loss.cost,
        weight=rows.weight[inside],
        intercept_scaling=rows.intercept,
    )
    duals = run(part, 1.0)
    assert_feasible(duals)
    assert duals.n_examples == len(inside)
    assert duals.dual_value(1.0) == pytest.approx(reference, rel=1e-8)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("index", [np.int32, np.int64])
def test_storage_makes_no_difference(dtype, index):
    dense = problem(3, dtype=dtype)
    sparse = problem(3, dtype=dtype, sparse=True)
    design = sparse.rows.design
    design.indptr, design.indices = design.indptr.astype(index), design.indices.astype(index)
    wide = ScoreRisk(
        dense_rows(dense.rows),
        dense.rows.y,
        dense.rows.loss,
        sample_weight=dense.rows.weight,
        intercept=dense.rows.intercept,
    )
    points = [ClassCoordinates(risk.rows, 0.3) for risk in (dense, sparse, wide)]
    for duals in points:
        for seed in range(5):
            duals.improve(seed, 5)
    assert points[0].w == pytest.approx(points[1].w, rel=1e-9, abs=1e-12)
    assert points[0].w == pytest.approx(points[2].w, rel=1e-9, abs=1e-12)


def test_aggregate_alone_gives_a_bundle_the_dual_value():
    C = 0.4
    risk = problem(4)
    duals = ClassCoordinates(risk.rows, C)
    for seed in range(20):
        duals.improve(seed, 5)
    value = duals.dual_value(C)
    cut = duals.aggregate()
    bundle = Bundle(risk.dim)
    bundle.add([cut])
    # the bundle may also take less than all of the plane, so it may do better
    bound = bundle.solve(C).lower_bound
    assert bound >= value * (1 - 1e-12)
    reference, _ = solve_multiclass_qp(
        dense_rows(risk.rows),
        risk.rows.y,
        C,
        cost=risk.rows.loss.cost,
        weight=risk.rows.weight,
        intercept_scaling=risk.rows.intercept,
    )
    assert bound <= reference * (1 + 1e-9)
    rng = np.random.default_rng(0)
    for _ in range(20):  # a minorant of the risk
        w = rng.normal(size=risk.dim)
        assert cut.at(w) <= risk.evaluate(w).value * (1 + 1e-12)


@pytest.mark.parametrize("factor", [0.01, 0.3, 8.0])
def test_rescaled_point_is_feasible_and_goes_on_to_the_new_optimum(factor):
    risk = problem(5)
    duals = ClassCoordinates(risk.rows, 0.2)
    for seed in range(10):
        duals.improve(seed, 5)
    foreseen = duals.dual_estimate(0.2 * factor)
    duals.rescale(0.2 * factor, SquaredNorm())
    assert 0.2 * factor == duals.C
    assert_feasible(duals)
    _, value = independent(duals)
    assert duals.dual_estimate(duals.C) == pytest.approx(value, rel=1e-9)
    # the best feasible multiple is at least as good as the one that was taken
    assert foreseen >= value - 1e-12 * abs(value)
    for seed in range(1000):
        duals.improve(seed, 5)
        if seed % 10 == 0:
            exact_check(risk, duals)
    upper = objective(risk.rows, duals.w, duals.C)
    # few features and a large C converge slowly, from any start
    assert upper - duals.dual_value(duals.C) <= 1e-3 * upper


def test_loaded_multipliers_are_taken_over_or_brought_into_the_box():
    risk = problem(11)
    old = ClassCoordinates(risk.rows, 0.5)
    for seed in range(10):
        old.improve(seed)
    same = ClassCoordinates(risk.rows, 0.5)
    same.load(old.multipliers.copy())
    assert same.multipliers == pytest.approx(old.multipliers, abs=1e-14)
    assert same.dual_value(0.5) == pytest.approx(old.dual_value(0.5), rel=1e-12)
    assert same.w == pytest.approx(old.w, abs=1e-12)
    rng = np.random.default_rng(0)
    for C in (0.01, 0.5):
        anything = ClassCoordinates(risk.rows, C)
        anything.load(rng.normal(size=old.multipliers.shape))
        assert_feasible(anything)
        assert anything.dual_estimate(C) == pytest.approx(independent(anything)[1], rel=1e-9)


def test_bound_for_another_C_is_true():
    risk = problem(6)
    rows = risk.rows
    duals = run(risk, 0.2)
    for C in (0.002, 0.05, 1.0, 50.0):
        reference, _ = solve_multiclass_qp(
            dense_rows(rows),
            rows.y,
            C,
            cost=rows.loss.cost,
            weight=rows.weight,
            intercept_scaling=rows.intercept,
        )
        assert 0.0 < duals.dual_value(C) <= reference * (1 + 1e-9)


def test_same_seed_same_bits_and_another_seed_another_order():
    risk = problem(7)

    def point(seeds):
        duals = ClassCoordinates(risk.rows, 0.5)
        gaps = [duals.improve(seed, 5).gap_estimate for seed in seeds]
        return gaps, duals.w

    first, again, other = point([1, 2, 3]), point([1, 2, 3]), point([4, 5, 6])
    assert first[0] == again[0]
    assert (first[1] == again[1]).all()
    assert not (first[1] == other[1]).all()


def test_rows_are_dropped_and_a_check_brings_back_what_was_dropped_wrongly():
    risk = problem(8, n=400, d=12, K=3)
    duals = ClassCoordinates(risk.rows, 0.05)
    full = duals.n_active
    for seed in range(30):
        duals.improve(seed, 5)
    assert duals.n_active < full / 2
    # a list that was emptied by mistake: the check finds every row that still violates
    duals = ClassCoordinates(risk.rows, 0.05)
    duals.improve(0)
    duals.improve(1)
    duals._select(duals._active[:0])
    stats = duals.improve(2, 1)
    assert (stats.oracle_calls, stats.gap_estimate) == (0, 0.0)
    exact_check(risk, duals)
    assert duals.n_active > 0
    for seed in range(600):
        duals.improve(seed, 5)
        if seed % 10 == 0:
            exact_check(risk, duals)
    upper = objective(risk.rows, duals.w, 0.05)
    assert upper - duals.dual_value(0.05) <= 1e-8 * upper


def test_visited_gap_of_a_fixed_point_is_the_duality_gap():
    risk = problem(9)
    # at the optimum nothing moves, so what an epoch over all rows sees is the gap itself
    duals = run(risk, 0.3, goal=1e-12)
    duals._start()
    gap = duals.improve(0).gap_estimate
    assert gap == pytest.approx(
        objective(risk.rows, duals.w, 0.3) - duals.dual_value(0.3), abs=1e-9
    )


@given(seed=st.integers(0, 1000), K=st.integers(2, 12), log_c=st.floats(-3, 3))
@settings(max_examples=30, deadline=None)
def test_a_visit_solves_the_problem_of_its_row(seed, K, log_c):
    risk = problem(seed, K=K, intercept=1.0)
    duals = ClassCoordinates(risk.rows, 10.0**log_c)
    for epoch in range(3):
        duals.improve(epoch, 2)
    for i in duals._visited[:10]:
        duals._select(np.array([i]))
        before = duals.improve(0, 1).gap_estimate
        duals._select(np.array([i]))
        again = duals.improve(0, 1).gap_estimate
        assert 0.0 <= again <= 1e-9 * (before + duals._caps[i])


def test_support_is_counted_off_the_truth():
    risk = problem(10)
    duals = ClassCoordinates(risk.rows, 0.3)
    rows = risk.rows
    # rows of zeros take their most expensive class at once
    still = sum(not dense_rows(rows)[i].any() for i in rows.indices()) if not rows.intercept else 0
    assert duals.n_support == still
    for seed in range(50):
        duals.improve(seed, 5)
    used = rows.indices()
    off = duals.multipliers[used].copy()
    off[np.arange(len(used)), rows.y[used]] = 0.0
    assert duals.n_support == int(off.any(axis=1).sum()) > 0


def test_rows_of_zeros_without_an_intercept_take_their_dearest_class():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 3))
    X[:5] = 0.0
    y = rng.integers(0, 3, 20)
    cost = np.array([[0.0, 1.0, 2.0], [3.0, 0.0, 1.0], [1.0, 5.0, 0.0]])
    risk = ScoreRisk(X, y, CrammerSinger(cost))
    reference, _ = solve_multiclass_qp(X, y, 1.0, cost=cost, fit_intercept=False)
    duals = run(risk, 1.0)
    assert duals.dual_value(1.0) == pytest.approx(reference, rel=1e-8)
    only = ScoreRisk(np.zeros((3, 2)), np.array([0, 1, 2]), CrammerSinger(cost))
    duals = ClassCoordinates(only.rows, 1.0)
    assert duals.improve(0).oracle_calls == 0
    assert duals.dual_value(1.0) == pytest.approx(2.0 + 3.0 + 5.0)


def test_multipliers_far_below_their_caps_keep_their_digits():
    """All margins can be met, and F is 1e-6 of C: changes of multipliers are below the rounding of C."""
    rng = np.random.default_rng(9)
    X = rng.normal(size=(6, 12)) * 10.0 ** rng.uniform(-4.0, 4.0, 12)
    svc = LinearSVC(C=1e3, multi_class="crammer_singer").fit(X, np.arange(6) % 4)
    assert svc.converged_, (svc.stop_reason_, svc.gap_)
    assert {record["method"] for record in svc.history_} == {"coordinate"}

"""The exact kernel solver, in memory so small that clusters, blocks and rows left aside all occur."""

import tracemalloc
from math import fsum

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.svm import SVC
from tests.ctrl_c import interrupted

from maxmargin import KernelSVC, minimize
from maxmargin.compiled.smo import pair_steps, single_steps
from maxmargin.duals.kernels import blocks as kernel_duals
from maxmargin.duals.kernels.blocks import feasible
from maxmargin.duals.kernels.terms import KernelTerms
from maxmargin.kernels import RBF, KernelRows, Linear, Polynomial
from maxmargin.kernels.clusters import clusters
from maxmargin.losses import DualTerms
from maxmargin.risks import KernelRisk
from maxmargin.solvers import KernelBlocks
from maxmargin.solvers.session import Session

#: bytes with which blocks have 280 rows
LITTLE = 2**20


def rows(n=900, d=4, seed=0, noise=0.5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, d))
    return X, np.sign(X[:, 0] + X[:, 1] * X[:, 2] + noise * rng.normal(size=n))


def fit(X, y, weight=None, **options):
    options = {"gamma": 0.3, "memory": LITTLE, "method": "exact", **options}
    return KernelSVC(**options).fit(X, y, weight)


def objective(svc, X, y, c):
    """F by the plainest formula."""
    kernel = svc.kernel_
    coef, K = svc.dual_coef_[0], naive(kernel, X, svc.support_vectors_)
    f = K @ coef
    loss = np.maximum(0.0, 1.0 - y * (f + svc.intercept_[0]))
    return 0.5 * coef @ f[svc.support_] + float(c @ loss)


def naive(kernel, X, Z):
    if isinstance(kernel, RBF):
        return np.exp(-kernel.gamma * ((X[:, None] - Z[None]) ** 2).sum(axis=2))
    products = X @ Z.T
    if isinstance(kernel, Linear):
        return products
    return (kernel.gamma * products + kernel.coef0) ** kernel.degree


# -- agreement -------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"kernel": "poly", "coef0": 1.0}, {"kernel": "linear"}])
@pytest.mark.parametrize("C", [0.1, 30.0])
def test_the_optimum_of_libsvm(options, C):
    X, y = rows()
    ours = fit(X, y, C=C, tol=1e-6, **options)
    theirs = SVC(C=C, tol=1e-6, gamma=0.3, **options).fit(X, y)
    coef, K = theirs.dual_coef_[0], naive(ours.kernel_, X, X[theirs.support_])
    loss = np.maximum(0.0, 1.0 - y * (K @ coef + theirs.intercept_))
    F = 0.5 * coef @ (K @ coef)[theirs.support_] + C * loss.sum()
    assert ours.converged_
    assert ours.certificate_ == "exact"
    assert ours.lower_bound_ <= F * (1 + 1e-12)
    assert ours.objective_ == pytest.approx(F, rel=3e-6)
    own = objective(ours, X, y, np.full(len(y), C))
    assert (
        0.0 <= ours.objective_ / own - 1.0 <= 1e-6
    )  # what rounding may do is part of it, and of tol


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("memory", [LITTLE // 8, LITTLE, 2**31])
def test_any_memory_any_tolerance(memory, intercept):
    X, y = rows(500)
    found = [
        fit(X, y, C=3.0, tol=tol, memory=memory, fit_intercept=intercept)
        for tol in (1e-1, 1e-3, 1e-5, 1e-8)
    ]
    best = found[-1]
    assert best.converged_
    for svc in found:
        assert svc.converged_
        assert svc.gap_ <= svc.tol
        assert svc.lower_bound_ <= best.objective_
        assert best.lower_bound_ <= svc.objective_
        assert svc.objective_ == pytest.approx(objective(svc, X, y, 3.0 * np.ones(500)), rel=1e-10)


def test_weights_are_copies_and_rows_without_weight_are_none():
    X, y = rows(400)
    times = np.random.default_rng(1).integers(0, 4, 400)
    weighted = fit(X, y, times.astype(float), tol=1e-7)
    copied = fit(np.repeat(X, times, axis=0), np.repeat(y, times), tol=1e-7)
    assert weighted.objective_ == pytest.approx(copied.objective_, rel=3e-7)
    assert np.all(times[weighted.support_] > 0)
    grid = np.random.default_rng(2).normal(size=(50, 4))
    difference = weighted.decision_function(grid) - copied.decision_function(grid)
    assert np.abs(difference).max() < 0.01


def test_a_class_without_weight():
    X, y = rows(300)
    svc = fit(X, y, (y > 0).astype(float))
    assert svc.objective_ == 0.0
    assert svc.converged_


@pytest.mark.parametrize("n", [2, 3, 5])
def test_few_rows(n):
    X, y = rows(n, seed=3)
    y[0], y[1] = 1.0, -1.0
    svc = fit(X, y, tol=1e-9, C=10.0)
    theirs = SVC(C=10.0, gamma=0.3, tol=1e-9).fit(X, y)
    assert svc.converged_
    np.testing.assert_allclose(svc.decision_function(X), theirs.decision_function(X), atol=1e-4)


def test_equal_rows_of_both_classes():
    """Pairs without curvature."""
    X, y = np.repeat(rows(60)[0], 8, axis=0), np.tile([1.0, -1.0], 240)
    svc = fit(X, y, tol=1e-6)
    assert svc.converged_
    assert svc.objective_ == pytest.approx(480.0, rel=1e-5)


def test_functions_and_kernels_that_are_none():
    X, y = rows(400)
    asked = []

    def function(A, B):
        asked.append(len(A) * len(B))
        return np.exp(-0.3 * ((A[:, None] - B[None]) ** 2).sum(axis=2))

    ours, own = fit(X, y, tol=1e-6, kernel=function), fit(X, y, tol=1e-6)
    assert ours.objective_ == pytest.approx(own.objective_, rel=2e-6)
    assert ours.kernel_values_ == sum(asked)
    svc = fit(X, y, kernel="sigmoid", coef0=0.5, max_iter=50)
    assert svc.certificate_ == "measured"
    assert svc.lower_bound_ == -np.inf
    assert svc.gap_ == np.inf
    assert not svc.converged_
    assert np.isfinite(svc.objective_)


# -- the same anywhere -----------------------------------------------------------------------------


def test_same_bits_with_any_number_of_threads():
    X, y = rows(5000, noise=0.3)
    first, *others = [fit(X, y, n_jobs=k, memory=2**24) for k in (1, 2, 7)]
    for other in others:
        np.testing.assert_array_equal(first.dual_coef_, other.dual_coef_)
        assert (first.objective_, first.lower_bound_) == (other.objective_, other.lower_bound_)


@pytest.mark.parametrize("memory", [2**13, LITTLE])
def test_sparse_rows(memory):
    X, y = rows(500)
    X[np.abs(X) < 0.5] = 0.0
    dense, sparse = fit(X, y), fit(sp.csr_matrix(X), y, memory=memory)
    assert sparse.converged_
    assert sparse.objective_ == pytest.approx(dense.objective_, rel=2e-3)


def test_a_start_saves_work():
    X, y = rows(900)
    svc = KernelSVC(gamma=0.3, method="exact", memory=LITTLE, warm_start=True).fit(X, y)
    before = svc.kernel_values_
    svc.set_params(C=1.1).fit(X, y)
    assert svc.converged_
    assert svc.kernel_values_ < before
    cold = fit(X, y, C=1.1, tol=1e-6)
    assert svc.lower_bound_ <= cold.objective_
    assert cold.lower_bound_ <= svc.objective_


# -- limits ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1, 2, 3, 5])
def test_interrupts_leave_true_bounds(at):
    X, y = rows(1500)
    best = fit(X, y, tol=1e-6)

    def interrupt(record):
        if record.iteration == at:
            raise KeyboardInterrupt

    stopped = interrupted(fit, X, y, tol=1e-6, callbacks=[interrupt]).estimator
    for svc in (stopped, fit(X, y, tol=1e-6, max_iter=at)):
        assert svc.stop_reason_ in ("interrupted", "max_iter")
        assert svc.lower_bound_ <= best.objective_
        assert best.lower_bound_ <= svc.objective_
        assert svc.objective_ == pytest.approx(objective(svc, X, y, np.ones(len(y))), rel=1e-9)


@pytest.mark.parametrize("at", [1, 2, 4, 7, 12])
def test_interrupts_in_the_middle(at):
    """Ctrl-C while kernel values are computed."""
    X, y = rows(800)
    best, asked = fit(X, y, tol=1e-6), []

    def function(A, B):
        asked.append(1)
        if len(asked) == at:
            raise KeyboardInterrupt
        return naive(RBF(0.3), A, B)

    svc = interrupted(fit, X, y, kernel=function, tol=1e-4).estimator
    assert svc.stop_reason_ == "interrupted"
    assert svc.lower_bound_ <= best.objective_
    assert best.lower_bound_ <= svc.objective_


@pytest.mark.parametrize("memory", [LITTLE, 2**28])
def test_the_time_is_looked_at_inside_a_block_and_between_clusters(monkeypatch, memory):
    monkeypatch.setattr(kernel_duals, "STEPS", 50)
    X, y = rows(900)
    steps = []
    for late in (False, True):
        risk = KernelRisk(RBF(0.3), X, y, memory=memory)
        duals = risk.block_duals(100.0)
        duals.late = lambda late=late: late
        duals.improve(0)
        assert duals.n_support > 0
        steps.append(duals.steps)
    assert steps[0] > 200
    assert steps[1] <= 100  # of one cluster and of one block


def test_the_session_lends_its_clock():
    X, y = rows(300)
    risk = KernelRisk(RBF(0.3), X, y)
    options = {"solver": KernelBlocks(), "regularizer": risk.norm}
    for limit, late in ((None, False), (1e9, False), (1e-9, True)):
        duals = risk.block_duals(1.0)
        Session(risk, None, None, max_seconds=limit).improve(duals, 0)
        assert duals.late() is late
    assert minimize(risk, 1.0, max_seconds=1e9, **options).stop_reason == "gap"


def test_a_start_of_many_pieces(monkeypatch):
    """Bounds that stand still meanwhile are no reason to stop."""
    monkeypatch.setattr(kernel_duals, "PIECE", 1)
    X, y = rows(3000)
    svc = fit(X, y, memory=2**16)
    assert svc.n_iter_ > 40
    assert svc.converged_


def test_memory():
    X, y = rows(6000, d=3)
    fit(X[:500], y[:500])
    for memory in (2**23, 2**25):
        tracemalloc.start()
        svc = fit(X, y, memory=memory)
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert svc.converged_
        assert peak < memory + 8e6  # lifted rows, scores and tiles


# -- the parts -------------------------------------------------------------------------------------


@st.composite
def blocks(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(1, 40)) if draw(st.booleans()) else draw(st.integers(250, 600))
    X = rng.normal(size=(n, draw(st.integers(1, 5))))
    if draw(st.booleans()):
        X[n // 2 :] = X[: n - n // 2]
    y, c = rng.choice([-1.0, 1.0], n), rng.choice([0.1, 1.0, 5.0], n)
    dtype = draw(st.sampled_from([np.float32, np.float64]))
    packed = KernelRows(
        draw(st.sampled_from([RBF(0.5), Linear(), Polynomial(1.0, 1.0, 2)])), X, dtype
    )
    return packed.block(packed), y, np.minimum(0.0, y) * c, np.maximum(0.0, y) * c


@settings(max_examples=150, deadline=None)
@given(blocks(), st.booleans())
def test_blocks_are_solved(block, balanced):
    K, y, lo, hi = block
    b, v = np.zeros(len(y)), y.copy()
    diagonal = np.ascontiguousarray(np.diagonal(K), dtype=np.float32)
    floor = 4.0 * float(np.finfo(K.dtype).eps) * float(diagonal.max())
    steps = pair_steps if balanced else single_steps
    done, _ = steps(K, diagonal, b, lo, hi, v, floor, 1e-3, 20_000)
    assert y @ b - 0.5 * b @ (K.astype(float) @ b) >= -1e-9
    assert np.all((lo <= b) & (b <= hi))
    if balanced:
        assert abs(b.sum()) <= 1e-9
    scale = max(1.0, float(np.abs(K).max()) * float(np.abs(b).sum()))
    # (rows of K are what is used: in single precision it is not quite symmetric)
    np.testing.assert_allclose(v, y - b @ K.astype(float), atol=1e-10 * scale)
    rise, fall = v[b < hi], v[b > lo]
    if balanced:
        left = rise.max() - fall.min() if len(rise) and len(fall) else -np.inf
    else:
        left = max(rise.max(initial=0.0), -fall.min(initial=0.0))
    assert done == 20_000 or left <= 1e-3 + 1e-5 * scale


@given(st.integers(0, 2**32), st.integers(1, 60), st.sampled_from([1e-6, 1.0, 1e6]), st.booleans())
def test_feasible_multipliers(seed, n, size, rounded):
    rng = np.random.default_rng(seed)
    y, c = rng.choice([-1.0, 1.0], n), size * rng.uniform(0.1, 1.0, n)
    lo, hi = np.minimum(0.0, y) * c, np.maximum(0.0, y) * c
    beta = rng.uniform(lo, hi) if not rounded else np.where(rng.random(n) < 0.5, lo, hi)
    found = feasible(beta * 1.01, lo, hi, True)
    assert np.all((lo <= found) & (found <= hi))
    assert abs(fsum(found)) <= 1e-16 * np.abs(found).max(initial=0.0)
    np.testing.assert_array_equal(feasible(beta, lo, hi, False), beta)


@given(st.integers(0, 2**32), st.integers(1, 30))
def test_best_intercept(seed, n):
    rng = np.random.default_rng(seed)
    y, c, f = (
        rng.choice([-1.0, 1.0], n),
        rng.choice([0.5, 1.0, 2.0], n),
        rng.normal(size=n).round(1),
    )
    loss = [c @ np.maximum(0.0, 1.0 - y * (f + b)) for b in y - f]
    b = KernelTerms.of(DualTerms(y), c).best_intercept(y - f)
    assert c @ np.maximum(0.0, 1.0 - y * (f + b)) == pytest.approx(min(loss), abs=1e-12)
    # two-sided: each target has two kinks
    target, width = y + rng.normal(size=n).round(1), rng.choice([0.0, 0.3], n)
    v = target - f
    loss = [c @ np.maximum(0.0, np.abs(v - b) - width) for b in [*(v - width), *(v + width)]]
    b = KernelTerms.of(DualTerms(target, width, two_sided=True), c).best_intercept(v)
    assert c @ np.maximum(0.0, np.abs(v - b) - width) == pytest.approx(min(loss), abs=1e-12)


@given(st.integers(0, 2**32), st.integers(1, 400), st.integers(1, 50), st.booleans(), st.booleans())
def test_clusters_part_the_rows(seed, n, largest, alike, sparse):
    rng = np.random.default_rng(seed)
    X = np.ones((n, 3)) if alike else rng.normal(size=(n, 3)).round(1)
    parts = clusters(sp.csr_matrix(X) if sparse else X, np.arange(n), largest, rng)
    assert max(map(len, parts)) <= largest
    np.testing.assert_array_equal(np.sort(np.concatenate(parts)), np.arange(n))


@pytest.mark.parametrize("kernel", [RBF(0.7), Linear(), Polynomial(0.5, 1.0, 3)])
def test_blocks_of_values(kernel):
    rng = np.random.default_rng(0)
    X, Z, coef = rng.normal(size=(1100, 7)), rng.normal(size=(600, 7)), rng.normal(size=(600, 2))
    expected = naive(kernel, X, Z)
    center = X.mean(axis=0)
    for dtype, tol in ((np.float32, 1e-5), (np.float64, 1e-13)):
        left, right = KernelRows(kernel, X, dtype, center), KernelRows(kernel, Z, dtype, center)
        scale = np.abs(expected).max()
        np.testing.assert_allclose(left.block(right), expected, atol=tol * scale)
        some = left.keep().take(np.arange(0, 1100, 3))
        np.testing.assert_allclose(some.block(right), expected[::3], atol=tol * scale)
        total = (np.abs(expected) @ np.abs(coef)).max()
        np.testing.assert_allclose(left.times(right, coef), expected @ coef, atol=tol * total)
        assert left.times(right.take(slice(0, 0)), coef[:0]).shape == (1100, 2)

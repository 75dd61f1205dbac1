"""Registers of eight change nothing: any number of columns, any pattern of zeros, any kind of data."""

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.data.design import as_design
from maxmargin.losses import CrammerSinger, Hinge
from maxmargin.risks import ScoreRisk

COLUMNS = [1, 2, 7, 8, 9, 16, 17, 20, 33]


def design(kind, seed=0, n=57, d=23):
    rng = np.random.default_rng(seed)
    dense = rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)
    dense[:, -1] = 1.0  # the last feature: nothing may be read beyond it
    X = sp.csr_array(dense)
    if kind == "dense":
        return as_design(dense), dense
    if kind == "float32":
        X.data = X.data.astype(np.float32)
        dense = X.toarray().astype(np.float64)
    if kind == "int64":
        X.indices, X.indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
    return as_design(X), dense


@pytest.mark.parametrize("kind", ["csr", "float32", "int64", "dense"])
@pytest.mark.parametrize("columns", COLUMNS)
def test_dot_of_columns(kind, columns):
    X, dense = design(kind)
    W = np.random.default_rng(1).normal(size=(dense.shape[1], columns))
    np.testing.assert_allclose(X.dot(W, 5, 50), dense[5:50] @ W, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", ["csr", "float32", "int64", "dense"])
@pytest.mark.parametrize("columns", COLUMNS)
@pytest.mark.parametrize("filled", [0, 1, 2, 3, 99])
def test_accumulated_columns(kind, columns, filled):
    X, dense = design(kind)
    rng = np.random.default_rng(2)
    coef = np.zeros((45, columns))
    for row in coef:
        some = rng.permutation(columns)[:filled]
        row[some] = rng.normal(size=len(some))
    # a guard on both sides: nothing but the target is written
    whole = rng.normal(size=(dense.shape[1] + 2, columns))
    expected = whole.copy()
    expected[1:-1] += dense[5:50].T @ coef
    X.accumulate(coef, 5, 50, whole[1:-1])
    np.testing.assert_allclose(whole, expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_array_equal(whole[[0, -1]], expected[[0, -1]])


@pytest.mark.parametrize("classes", [2, 3, 8, 9, 17])
def test_crammer_singer_for_any_number_of_classes(classes):
    rng = np.random.default_rng(classes)
    cost = rng.random((classes, classes)) * (1 - np.eye(classes))
    loss, y, weight = CrammerSinger(cost), rng.integers(0, classes, 40), rng.random(40)
    s, r = rng.normal(size=(40, classes)), rng.normal(size=(40, classes))

    def margins(t):
        at = s + t * (r - s)
        return cost[y] + at - at[np.arange(40), y][:, None]

    assert loss.value(s, y, weight) == pytest.approx(weight @ margins(0.0).max(axis=1), rel=1e-12)
    offset, gradient = loss.cut(s, y, weight)
    assert offset + np.sum(gradient * s) == pytest.approx(loss.value(s, y, weight), rel=1e-12)
    ts = np.linspace(0.0, 1.5, 11)
    rise = [weight @ (margins(t + 1e-9).max(axis=1) - margins(t).max(axis=1)) for t in ts]
    slopes = loss.slopes(s, r, y, weight, ts)
    np.testing.assert_allclose(slopes, np.array(rise) / 1e-9, rtol=1e-4, atol=1e-4)
    at, jumps = loss.breakpoints(s, r, y, weight, 0.0, 1.5, 10_000)
    inside = [jumps[at <= t].sum() for t in ts]
    np.testing.assert_allclose(slopes - slopes[0], inside, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("classes", [2, 5])
def test_the_cut_between_two_points_needs_no_value(classes):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 6))
    if classes == 2:
        risk = ScoreRisk(X, rng.choice([-1.0, 1.0], 300), Hinge(), intercept=1.0)
    else:
        loss = CrammerSinger(1.0 - np.eye(classes))
        risk = ScoreRisk(X, rng.integers(0, classes, 300), loss, intercept=1.0)
    a, b = (risk.evaluate(rng.normal(size=risk.dim)) for _ in range(2))
    lazy, settled = a.toward(b, 0.3), a.toward(b, 0.3)
    there = risk.evaluate(a.w + 0.3 * (b.w - a.w))
    assert settled.value == pytest.approx(there.value, rel=1e-12)
    for at in (lazy, settled):
        assert at.cut().offset == there.cut().offset
        np.testing.assert_allclose(at.cut().plane, there.cut().plane, rtol=1e-12, atol=1e-12)
    assert lazy.value == settled.value
    np.testing.assert_array_equal(lazy.w, settled.w)

"""The referee's objectives against numbers worked out by hand and against each other."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from tests.reference_optima.problems import brute_force_objective
from tests.tiny_tasks import TinyChain, TinyMulticlass

from maxmargin.testing import binary_objective, multiclass_objective, structured_objective
from maxmargin.testing.reference import brute_force_inference


def test_binary_by_hand():
    X, y = [[1.0, 0.0], [0.0, 2.0], [1.0, 1.0]], [1, -1, -1]
    # scores 0.5 + 0.25, -1 + 0.25, 0 + 0.25; hinges 0.25, 0.25, 1.25
    w, b = [0.5, -0.5], 0.25
    assert binary_objective(w, b, X, y, 2.0, penalize_intercept=False) == 0.25 + 2 * 1.75
    assert binary_objective(w, b, X, y, 2.0) == 0.25 + 0.03125 + 3.5
    assert binary_objective(w, b, X, y, 2.0, intercept_scaling=0.5) == 0.25 + 0.125 + 3.5
    assert binary_objective(w, b, X, y, 2.0, [1, 0, 2], penalize_intercept=False) == 0.25 + 5.5


def test_multiclass_by_hand():
    W, b = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]], [0.0, 0.0, 0.5]
    X, y = [[1.0, 0.0], [0.0, 2.0]], [0, 0]
    # scores (1, 0, 0.5) and (0, 2, 0.5): worst 0.5 (class 2) and 3 (class 1)
    assert multiclass_objective(W, b, X, y, 1.0, penalize_intercept=False) == 1.0 + 3.5
    assert multiclass_objective(W, b, X, y, 1.0) == 1.0 + 0.125 + 3.5
    cost = [[0, 1, 4], [1, 0, 1], [1, 1, 0]]
    # class 2 now costs 4: worst 3.5 and 4.5
    assert multiclass_objective(W, b, X, y, 1.0, cost, penalize_intercept=False) == 1.0 + 8.0


@given(st.integers(0, 2**32 - 1))
def test_two_classes_are_a_binary_problem(seed):
    rng = np.random.default_rng(seed)
    X, y = rng.normal(size=(9, 3)), rng.integers(0, 2, 9)
    w, b, s = rng.normal(size=3), float(rng.normal()), rng.random(9)
    both = multiclass_objective(
        [-w / 2, w / 2], [-b / 2, b / 2], X, y, 3.0, weight=s, penalize_intercept=False
    )
    one = binary_objective(w, b, X, 2 * y - 1, 3.0, s, penalize_intercept=False)
    np.testing.assert_allclose(both - w @ w / 4, one - w @ w / 2, rtol=1e-12)


def test_sparse_dense_and_float32_agree_across_blocks(monkeypatch):
    monkeypatch.setattr("maxmargin.testing.reference.BLOCK", 7)
    rng = np.random.default_rng(0)
    X = np.where(rng.random((40, 6)) < 0.5, 0.0, rng.integers(-3, 4, (40, 6))).astype(np.float64)
    y, w = rng.choice([-1, 1], 40), rng.normal(size=6)
    expected = w @ w / 2 + 2.0 * np.maximum(0, 1 - y * (X @ w)).sum()
    for form in (X, sp.csr_matrix(X), sp.csc_array(X), X.astype(np.float32)):
        assert binary_objective(w, 0.0, form, y, 2.0) == pytest.approx(expected, rel=1e-13)
    W, k = rng.normal(size=(3, 6)), rng.integers(0, 3, 40)
    forms = [multiclass_objective(W, 0.0, f, k, 2.0) for f in (X, sp.csr_matrix(X))]
    assert forms[0] == pytest.approx(forms[1], rel=1e-13)


def test_sums_are_exact():
    # naive summation loses the small parts
    weight = np.array([1e16, 1.0, 1.0])
    assert binary_objective([0.0], 0.0, np.zeros((3, 1)), [1, 1, 1], 1.0, weight) == 1e16 + 2.0


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match="-1 and"):
        binary_objective([0.0], 0.0, [[1.0]], [0], 1.0)
    with pytest.raises(ValueError, match="diagonal"):
        multiclass_objective([[0.0], [0.0]], 0.0, [[1.0]], [0], 1.0, cost=np.ones((2, 2)))
    with pytest.raises(ValueError, match="shape"):
        binary_objective([0.0, 1.0], 0.0, [[1.0]], [1], 1.0)


@given(st.integers(0, 2**32 - 1), st.sampled_from(["margin", "slack"]))
def test_structured_equals_brute_force_equals_multiclass(seed, rescaling):
    rng = np.random.default_rng(seed)
    X, Y = list(rng.normal(size=(6, 2))), rng.integers(0, 3, 6).tolist()
    cost = rng.integers(1, 5, (3, 3)) * (1.0 - np.eye(3))
    task = TinyMulticlass(cost)
    w, s = rng.normal(size=task.setup(X, Y)), rng.random(6)
    by_oracle = structured_objective(task, X, Y, w, 2.0, s, rescaling)
    listed = brute_force_objective(task, X, Y, w, 2.0, task.outputs, s, rescaling)
    assert by_oracle == pytest.approx(listed, rel=1e-12)
    if rescaling == "margin":
        plain = multiclass_objective(w.reshape(3, 2), 0.0, X, Y, 2.0, cost, s)
        assert by_oracle == pytest.approx(plain, rel=1e-12)


def test_brute_force_of_a_chain_by_hand():
    task = TinyChain()
    x, y = np.array([[1.0], [1.0]]), (0, 1)
    task.setup([x], [y])
    # weights: label 0: 0, label 1: 2; transitions 00, 01, 10, 11: 0, 1, 0, -1.5
    w = np.array([0.0, 2.0, 0.0, 1.0, 0.0, -1.5])
    # scores: 00: 0, 01: 3, 10: 2, 11: 2.5
    assert brute_force_inference(task, x, w, task.outputs) == ((0, 1), 3.0)
    # with Hamming loss, minus the truth's 3: 00: -2, 01: 0, 10: 1, 11: 0.5
    assert brute_force_inference(task, x, w, task.outputs, y) == ((1, 0), 1.0)
    # slack: 00: 1 * (1 - 3), 01: 0, 10: 2 * (1 - 1), 11: 1 * (1 - 0.5)
    assert brute_force_inference(task, x, w, task.outputs, y, "slack") == ((1, 1), 0.5)
    with pytest.raises(ValueError, match="no output"):
        brute_force_inference(task, x, w, lambda x: [])
    with pytest.raises(ValueError, match="rescaling"):
        brute_force_inference(task, x, w, task.outputs, y, "other")

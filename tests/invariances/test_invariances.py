"""What must not change the answer does not, and what must not change a bit does not change a bit."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import make_classification
from tests.contracts.engine import check_engine

from maxmargin import LinearSVC, SequenceTagger
from maxmargin.engines import SerialEngine, ThreadEngine


def close(a, b, slack=1e-9):
    """Two fits of one problem: their certified intervals overlap."""
    return max(a.lower_bound_, b.lower_bound_) <= min(a.objective_, b.objective_) * (1 + slack)


@given(seed=st.integers(0, 1000), classes=st.sampled_from([2, 3]))
def test_duplicated_rows_are_rows_of_weight_two(seed, classes):
    X, y = make_classification(
        60, 5, n_informative=4, n_redundant=0, n_classes=classes, random_state=seed
    )
    twice = LinearSVC(C=0.3, tol=1e-5, loss="hinge").fit(np.vstack([X, X]), np.concatenate([y, y]))
    heavy = LinearSVC(C=0.3, tol=1e-5, loss="hinge").fit(X, y, sample_weight=np.full(len(y), 2.0))
    larger = LinearSVC(C=0.6, tol=1e-5, loss="hinge").fit(X, y)
    assert close(twice, heavy)
    assert close(heavy, larger)


def test_rows_of_weight_zero_are_absent():
    X, y = make_classification(80, 5, random_state=0)
    weight = np.ones(80)
    weight[::3] = 0.0
    kept = weight > 0
    a = LinearSVC(tol=1e-6, loss="hinge").fit(X, y, weight)
    b = LinearSVC(tol=1e-6, loss="hinge").fit(X[kept], y[kept])
    assert close(a, b)
    tagged = [x[None] for x in X]
    labels = [[int(v)] for v in y]
    a = SequenceTagger(1.0, tol=1e-4).fit(tagged, labels, sample_weight=weight)
    b = SequenceTagger(1.0, tol=1e-4).fit(
        [x for x, k in zip(tagged, kept, strict=True) if k],
        [v for v, k in zip(labels, kept, strict=True) if k],
    )
    assert close(a, b)


def test_order_of_rows_and_names_of_labels():
    X, y = make_classification(150, 8, n_informative=5, n_classes=3, random_state=3)
    a = LinearSVC(tol=1e-5, loss="hinge").fit(X, y)
    order = np.random.default_rng(0).permutation(150)
    b = LinearSVC(tol=1e-5, loss="hinge").fit(X[order], y[order])
    assert close(a, b)
    names = np.array(["a", "b", "c"])  # same order: the same problem to the bit
    c = LinearSVC(tol=1e-5, loss="hinge").fit(X, names[y])
    assert c.objective_ == a.objective_
    np.testing.assert_array_equal(c.coef_, a.coef_)
    np.testing.assert_array_equal(c.predict(X), names[a.predict(X)])


def big(sparse, classes):
    rng = np.random.default_rng(5)
    X = rng.normal(size=(40_000, 12)) * (rng.random((40_000, 12)) < (0.4 if sparse else 1.0))
    y = (X @ rng.normal(size=(12, classes)) + rng.normal(size=(40_000, classes))).argmax(axis=1)
    return (sp.csr_matrix(X) if sparse else X), y


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_the_number_of_workers_changes_no_bit(sparse, classes):
    X, y = big(sparse, classes)
    fits = [LinearSVC(C=0.01, n_jobs=jobs, loss="hinge").fit(X, y) for jobs in (None, 2, 7)]
    for other in fits[1:]:
        np.testing.assert_array_equal(other.coef_, fits[0].coef_)
        assert other.objective_ == fits[0].objective_
        assert other.lower_bound_ == fits[0].lower_bound_
        assert other.n_iter_ == fits[0].n_iter_


def test_fits_repeat_bit_for_bit():
    X, y = big(True, 2)
    a, b = (LinearSVC(C=0.01, loss="hinge").fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(a.coef_, b.coef_)
    rng = np.random.default_rng(8)
    S, L = [rng.normal(size=(3, 4)) for _ in range(50)], [[0, 1, 0]] * 50
    c, d = (SequenceTagger(0.1).fit(S, L) for _ in range(2))
    np.testing.assert_array_equal(c.weights_, d.weights_)


def test_seeds_change_the_road_not_the_answer():
    rng = np.random.default_rng(9)
    X = [rng.normal(size=(3, 4)) for _ in range(80)]
    Y = [(x[:, :2] + rng.normal(size=(3, 2))).argmax(axis=1) for x in X]
    fits = [SequenceTagger(0.1, tol=1e-4, random_state=seed).fit(X, Y) for seed in range(3)]
    assert close(fits[0], fits[1])
    assert close(fits[1], fits[2])
    assert (fits[0].weights_ != fits[1].weights_).any()


@pytest.mark.parametrize("make", [SerialEngine, lambda: ThreadEngine(1), lambda: ThreadEngine(5)])
def test_engines_keep_their_contract(make):
    check_engine(make)

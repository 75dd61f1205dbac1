"""SequenceTagger with a kernel, and what it shares with the linear one.

Claims: it is the StructuredSVM of a chain with that kernel; a linear kernel is the linear tagger; k best and
max-marginals are those of the same functions; options of the tagger go with it; the polynomial kernel reads
letters better than the linear one, certified.
"""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from sklearn.base import clone
from tests.data import datasets, require

from maxmargin import SequenceTagger, StructuredSVM
from maxmargin.kernels import EmpiricalMap, Nystrom
from maxmargin.tasks import Chain


def words(rng, n=40, length=4, d=3):
    """Labels by the sign of a product, which no line finds, and by neighbors."""
    X = [rng.normal(size=(length, d)) for _ in range(n)]
    return X, [[("even", "odd")[int(row[0] * row[1] > 0)] for row in x] for x in X]


RBF = {"kernel": "rbf", "gamma": 0.5}


@pytest.mark.parametrize("method", ["map", Nystrom(30)])
def test_it_is_the_structured_model_of_a_chain(method):
    rng = np.random.default_rng(0)
    X, y = words(rng)
    tagger = SequenceTagger(C=3.0, tol=1e-5, kernel_method=method, **RBF).fit(X, y)
    codes = [np.array([("even", "odd").index(label) for label in labels]) for labels in y]
    svm = StructuredSVM(Chain(2), 3.0, tol=1e-5, kernel_method=method, **RBF).fit(X, codes)
    assert tagger.objective_ == pytest.approx(svm.objective_, rel=1e-4)
    assert tagger.certificate_ == svm.certificate_ == ("exact" if method == "map" else "restricted")
    new, truth = words(rng, 200)
    found = [[("even", "odd").index(label) for label in labels] for labels in tagger.predict(new)]
    same = np.mean([np.array_equal(a, b) for a, b in zip(found, svm.predict(new), strict=True)])
    assert same > 0.98
    assert tagger.score(new, truth) > 0.8 > SequenceTagger(C=3.0).fit(X, y).score(new, truth)


def test_a_linear_kernel_is_the_linear_tagger():
    X, y = words(np.random.default_rng(1))
    plain = SequenceTagger(C=0.5, tol=1e-7).fit(X, y)
    kernel = SequenceTagger(C=0.5, tol=1e-7, kernel="linear").fit(X, y)
    assert kernel.objective_ == pytest.approx(plain.objective_, rel=1e-6)
    assert kernel.predict(X) == plain.predict(X)
    assert kernel.transitions_ == pytest.approx(plain.transitions_, abs=1e-3)
    assert plain.coef_.shape == (2, 3)
    assert plain.expansion_ is None
    # the same functions: weights of features are coefficients times rows
    assert kernel.coef_ @ kernel.expansion_.rows == pytest.approx(plain.coef_, abs=1e-3)


def test_k_best_and_max_marginals_are_of_the_same_functions():
    X, y = words(np.random.default_rng(2), 20)
    tagger = SequenceTagger(C=2.0, **RBF).fit(X, y)
    x = X[0]
    nodes = tagger.expansion_(x)
    A, start, stop = tagger.transitions_, tagger.starts_, tagger.stops_

    def score(z):
        moves = sum(A[a, b] for a, b in itertools.pairwise(z))
        return sum(nodes[t, k] for t, k in enumerate(z)) + moves + start[z[0]] + stop[z[-1]]

    every = sorted((score(z) for z in itertools.product(range(2), repeat=len(x))), reverse=True)
    best = tagger.predict_k_best([x], 5)[0]
    assert [s for _, s in best] == pytest.approx(every[:5], abs=1e-4)
    assert best[0][0] == tagger.predict([x])[0]
    assert tagger.max_marginals([x])[0].max(axis=1) == pytest.approx(every[0], abs=1e-4)


def test_options_of_the_tagger():
    rng = np.random.default_rng(3)
    X, y = words(rng, 30)
    stacked, lengths = np.concatenate(X), [len(x) for x in X]
    base = SequenceTagger(**RBF).fit(X, y)
    flat = SequenceTagger(**RBF).fit(stacked, [t for part in y for t in part], lengths=lengths)
    assert np.array_equal(base.weights_, flat.weights_)
    assert flat.predict(stacked, lengths) == [t for part in base.predict(X) for t in part]
    sparse = SequenceTagger(**RBF).fit([csr_matrix(x) for x in X], y)
    assert sparse.objective_ == pytest.approx(base.objective_, rel=1e-9)
    assert sparse.predict([csr_matrix(x) for x in X]) == base.predict(X)
    second = SequenceTagger(order=2, **RBF).fit(X, y)
    assert second.certificate_ == "exact"
    assert len(second.predict(X)[0]) == 4
    slack = SequenceTagger(rescaling="slack", **RBF).fit(X, y)
    assert slack.certificate_ == "exact"
    holes = [[None if i == j else t for j, t in enumerate(part)] if i < 2 else part
             for i, part in enumerate(y)]  # fmt: skip
    assert SequenceTagger(partial="complete", **RBF).fit(X, holes).certificate_ == "exact"
    masked = SequenceTagger(forbidden_transitions=[("odd", "odd")], **RBF)
    for part in masked.fit([x[:1] for x in X], [part[:1] for part in y]).predict(X):
        assert ("odd", "odd") not in itertools.pairwise(part)
    strings = SequenceTagger(**RBF).fit([[["a"], ["b"]], [["b"], ["a"]]], [["x", "y"], ["y", "x"]])
    assert strings.predict([[["a"], ["b"]]]) == [["x", "y"]]
    assert strings.n_features_in_ == 2


def test_clones_pickles_and_warm_starts():
    X, y = words(np.random.default_rng(4))
    tagger = SequenceTagger(C=2.0, kernel_method=Nystrom(20), warm_start=True, **RBF).fit(X, y)
    assert clone(tagger).get_params()["kernel_method"] == Nystrom(20)
    assert pickle.loads(pickle.dumps(tagger)).predict(X) == tagger.predict(X)
    first, bound = tagger.n_iter_, tagger.restricted_lower_bound_
    tagger.fit(X, y)
    assert tagger.n_iter_ <= first
    # it goes on from the multipliers: their value never falls, whereas F of the point goes up and down
    assert tagger.restricted_lower_bound_ >= bound * (1 - 1e-12)
    tagger.set_params(kernel=None).fit(X, y)
    assert tagger.expansion_ is None
    assert tagger.certificate_ == "exact"
    assert not hasattr(tagger, "restricted_gap_")
    assert tagger.coef_.shape == (2, 3)


def test_refusals():
    X, y = words(np.random.default_rng(5), 4)
    with pytest.raises(ValueError, match="more rows than max_rows=3"):
        SequenceTagger(kernel="rbf", kernel_method=EmpiricalMap(3)).fit(X, y)


@pytest.mark.data
def test_a_polynomial_kernel_reads_letters_better():
    X, Y, folds = require(datasets.ocr_letters)
    train = [i for i in range(len(X)) if folds[i] == 0][::3]  # neighbors are the same word
    test = [i for i in range(len(X)) if folds[i] == 1]
    data = [X[i] for i in train], [Y[i] for i in train]
    held_out = [X[i] for i in test], [Y[i] for i in test]
    linear = SequenceTagger(C=0.1).fit(*data)
    poly = SequenceTagger(C=1.0, kernel="poly", degree=2, coef0=1.0).fit(*data)
    assert poly.certificate_ == "exact"
    assert poly.converged_
    assert 1 - poly.score(*held_out) < 0.85 * (1 - linear.score(*held_out))


@pytest.mark.parametrize("method", ["map", "nystrom"])
def test_rows_far_from_zero_are_as_good_as_others(method):
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(int(k), 2)) for k in rng.integers(2, 8, 30)]
    y = [(np.sin(3 * x[:, 0]) > 0).astype(int).tolist() for x in X]
    options = {"kernel": "rbf", "gamma": 0.5, "C": 5.0, "kernel_method": method, "tol": 1e-2}
    near = SequenceTagger(**options).fit(X, y)
    far = SequenceTagger(**options).fit([x + 1e8 for x in X], y)
    assert far.objective_ == pytest.approx(near.objective_, rel=2e-2)
    there, here = far.predict([x + 1e8 for x in X]), near.predict(X)
    same = [a == b for p, q in zip(there, here, strict=True) for a, b in zip(p, q, strict=True)]
    assert np.mean(same) > 0.97  # two fits to a tolerance: tokens near the border may differ


def test_a_function_that_is_no_kernel_is_found_out():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(4, 2)) for _ in range(10)]
    y = [(x[:, 0] > 0).astype(int).tolist() for x in X]
    signed = lambda A, B: A @ np.diag([1.0, -1.0]) @ B.T  # noqa: E731
    tagger = SequenceTagger(kernel=signed, kernel_method="map", max_iter=50).fit(X, y)
    assert (tagger.certificate_, tagger.converged_) == ("measured", False)


def test_an_optimum_of_zero_is_certified():
    X = list(np.random.default_rng(0).normal(size=(3, 4, 2)))
    tagger = SequenceTagger(kernel="rbf").fit(X, [["a"] * 4] * 3)
    assert (tagger.objective_, tagger.lower_bound_, tagger.gap_) == (0.0, 0.0, 0.0)
    assert tagger.converged_

"""Streams of structured examples: a bound over all examples seen, bounded memory, verify."""

import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from fuzz.structured_tasks import Lookup
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

import maxmargin
from maxmargin import GaussianPrior, SequenceTagger, StructuredSVM
from maxmargin.tasks import Chain, Choice, Enumerable

WORDS = ["the", "a", "cat", "dog", "sat", "ran", "red", "big"]
LABELS = ["D", "N", "V"]


def sentences(n, seed=0, words=8):
    """Tokens with a word and its position's noise, labels that depend on the word and its neighbor."""
    rng, X, y = np.random.default_rng(seed), [], []
    for _ in range(n):
        codes = rng.integers(0, words, int(rng.integers(1, 7)))
        labels = [LABELS[(c // 2 + (rng.random() < 0.15)) % 3] for c in codes]
        X.append([[f"w={WORDS[c]}", f"n={rng.integers(3)}"] for c in codes])
        y.append(labels)
    return X, y


def batches(count=6, size=40, seed=0):
    return [sentences(size, seed + k) for k in range(count)]


def together(parts):
    return [x for X, _ in parts for x in X], [v for _, y in parts for v in y]


def streamed(parts, **params):
    tagger = SequenceTagger(**params)
    for X, y in parts:
        tagger.partial_fit(X, y, classes=LABELS)
    return tagger


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"order": 2},
        {"rescaling": "slack"},
        {"n_hashed": 16},
        {"cost": {"V": 3.0}, "forbidden_transitions": [("V", None)]},
    ],
    ids=["plain", "second order", "slack", "hashed", "cost"],
)
def test_the_bound_holds_over_all_sequences_and_verify_gives_the_objective(params):
    parts = batches(4, 15)
    if "forbidden_transitions" in params:
        parts = [
            tuple(zip(*[(a, b) for a, b in zip(X, y, strict=True) if b[-1] != "V"], strict=True))
            for X, y in parts
        ]
    X, y = together(parts)
    tagger = SequenceTagger(C=0.3, max_support=20, **params)
    for k, (A, b) in enumerate(parts):
        tagger.partial_fit(list(A), list(b), classes=LABELS)
        assert (tagger.objective_, tagger.gap_, tagger.converged_) == (np.inf, np.inf, False)
        assert (tagger.certificate_, tagger.stop_reason_) == ("lower_only", "partial")
        assert tagger.n_iter_ == len(tagger.history_) == k + 1
        assert tagger.n_support_ <= 20
        seen = together(parts[: k + 1])
        best = SequenceTagger(C=0.3, tol=1e-5, **params).fit(*seen)
        assert 0.5 * best.objective_ < tagger.lower_bound_ <= best.objective_
    assert tagger.n_seen_ == len(X)
    for data in ((X, y), ([(list(A), list(b)) for A, b in parts],)):
        tagger.verify(*data)
        assert tagger.certificate_ == "exact"
        assert best.lower_bound_ <= tagger.objective_ < 1.5 * best.objective_
        assert tagger.gap_ == pytest.approx(1 - tagger.lower_bound_ / tagger.objective_)
    assert tagger.score(X, y) > best.score(X, y) - 0.05


def test_the_objective_of_verify_is_that_of_an_independent_computation():
    parts = batches(3, 20)
    tagger = streamed(parts, C=0.3, max_support=10).verify(parts)
    total, w = 0.0, tagger.weights_
    for x, labels in zip(*together(parts), strict=True):
        scores = tagger.vectorizer_.transform([x]) @ tagger.coef_.T
        truth, values = [tagger.classes_.index(v) for v in labels], []
        for path in np.ndindex(*[3] * len(x)):
            moves = sum(tagger.transitions_[a, b] for a, b in itertools.pairwise(path))
            ends = tagger.starts_[path[0]] + tagger.stops_[path[-1]]
            own = sum(scores[t, k] for t, k in enumerate(path)) + moves + ends
            values.append((own + sum(a != b for a, b in zip(path, truth, strict=True)), own, path))
        right = next(own for _, own, path in values if list(path) == truth)
        total += max(v[0] for v in values) - right
    assert tagger.objective_ == pytest.approx(0.5 * w @ w + 0.3 * total, rel=1e-10)


def test_new_names_get_new_weights_and_old_ones_keep_theirs():
    first, second = sentences(30, 1, words=3), sentences(30, 2)
    tagger = streamed([first], C=0.3, max_support=1000)
    names, weights = list(tagger.vectorizer_.feature_names_), tagger.coef_.copy()
    tagger.partial_fit(*second)
    assert tagger.vectorizer_.feature_names_[: len(names)] == names
    assert tagger.n_features_in_ == len(tagger.vectorizer_.feature_names_) > len(names)
    assert tagger.coef_.shape == (3, tagger.n_features_in_)
    assert np.abs(tagger.coef_[:, : len(names)] - weights).max() > 0
    # the same features as matrices, whose columns are known from the beginning
    rows = [[tagger.vectorizer_.transform([x]) for x in X] for X, _ in (first, second)]
    other = SequenceTagger(C=0.3, max_support=1000)
    for X, (_, y) in zip(rows, (first, second), strict=True):
        other.partial_fit(X, y, classes=LABELS)
    np.testing.assert_allclose(other.weights_, tagger.weights_, atol=1e-12)
    assert other.lower_bound_ == pytest.approx(tagger.lower_bound_, rel=1e-9)


def test_the_state_does_not_grow_with_the_stream():
    tagger, sizes = SequenceTagger(C=0.1, n_hashed=64, max_support=30), []
    for k in range(40):
        tagger.partial_fit(*sentences(20, k), classes=LABELS)
        kept = tagger._stream.kept
        planes = sum(sets.n_planes for sets in kept)
        sizes.append((len(kept), tagger.n_support_, planes, len(pickle.dumps(tagger._stream))))
    assert max(n for _, n, _, _ in sizes) <= 30
    assert max(size for *_, size in sizes[5:]) <= min(size for *_, size in sizes[5:]) + 100
    assert max(planes for _, _, planes, _ in sizes) <= 30 * 6
    for k in range(100):  # single sequences: the number of pieces is bounded, too
        tagger.set_params(max_support=1000).partial_fit(*sentences(1, k))
    assert len(tagger._stream.kept) <= 64


@pytest.mark.parametrize("sparse", [False, True])
def test_batches_of_matrices_with_weights(sparse):
    rng, parts = np.random.default_rng(0), []
    for _ in range(4):
        y = [rng.integers(0, 2, int(n)) for n in rng.integers(1, 6, 25)]
        X = [np.eye(2)[v] + rng.normal(size=(len(v), 2)) for v in y]
        weight = rng.uniform(0, 2, 25) * (rng.random(25) > 0.2)
        parts.append(([sp.csr_matrix(x) for x in X] if sparse else X, y, weight))
    tagger = SequenceTagger(C=0.5, max_support=30)
    for X, y, weight in parts:
        tagger.partial_fit(X, y, classes=[0, 1], sample_weight=weight)
    assert tagger.verify(parts).certificate_ == "exact"
    X, y = together([part[:2] for part in parts])
    weight = np.concatenate([part[2] for part in parts])
    best = SequenceTagger(C=0.5, tol=1e-5).fit(X, y, sample_weight=weight)
    assert tagger.lower_bound_ <= best.objective_
    assert best.lower_bound_ <= tagger.objective_
    with pytest.raises(ValueError, match="of total weight"):
        tagger.verify((X, y) for X, y, _ in parts)  # weights forgotten


def candidates(kind, n, seed=0):
    rng, w = np.random.default_rng(seed), np.array([1.0, -2.0, 0.5])
    X = [rng.normal(size=(4, 3)) for _ in range(n)]
    right = [int((x @ w + rng.normal(size=4)).argmax()) for x in X]
    losses = [np.where(np.arange(4) == r, 0.0, 1.0) for r in right]
    pairs = list(zip(right, losses, strict=True))
    if kind == "candidates":
        return Enumerable(), X, [Choice(r, v) for r, v in pairs]
    if kind == "python":
        return Lookup(), X, [(r, tuple(v)) for r, v in pairs]
    y = [rng.integers(0, 2, 3) for _ in range(n)]
    return Chain(n_labels=2), [np.eye(2)[v] + rng.normal(size=(3, 2)) for v in y], y


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from(["candidates", "python", "chains"]),
    keep=st.integers(1, 12),
    count=st.integers(1, 5),
    log_c=st.floats(-2.0, 1.0),
)
def test_any_task(seed, kind, keep, count, log_c):
    task, X, y = candidates(kind, 30, seed)
    svm, C = StructuredSVM(task, 10.0**log_c, max_support=keep), 10.0**log_c
    last = 0.0
    for part in np.array_split(np.arange(30), count):
        svm.partial_fit([X[i] for i in part], [y[i] for i in part])
        assert svm.n_support_ <= keep
        assert svm.lower_bound_ >= last * (1 - 1e-9) - 1e-9
        last = svm.lower_bound_
    best = StructuredSVM(task, C, tol=1e-4).fit(X, y)
    assert last <= best.objective_ * (1 + 1e-9)
    svm.verify(X, y)
    assert svm.objective_ >= best.lower_bound_ * (1 - 1e-9)
    assert len(svm.predict(X)) == 30


def test_another_C_in_the_middle_is_a_bound_for_that_C():
    parts = batches()
    tagger = SequenceTagger(C=1.0, max_support=50)
    for k, (X, y) in enumerate(parts):
        tagger.set_params(C=1.0 if k < 3 else 0.1).partial_fit(X, y, LABELS)
    best = SequenceTagger(C=0.1, tol=1e-4).fit(*together(parts))
    assert 0.5 * best.objective_ < tagger.lower_bound_ <= best.objective_
    assert tagger.verify(parts).objective_ >= best.lower_bound_
    with pytest.raises(ValueError, match="set it back"):
        tagger.set_params(C=2.0).verify(parts)


@pytest.mark.parametrize("way", ["pickle", "file"])
@pytest.mark.parametrize("hashed", [None, 16])
def test_a_stored_stream_continues_with_a_true_bound(way, hashed, tmp_path):
    parts = batches()
    tagger = SequenceTagger(C=0.3, max_support=60, n_hashed=hashed)
    for X, y in parts:
        tagger.partial_fit(X, y, LABELS)
        if way == "pickle":
            other = pickle.loads(pickle.dumps(tagger))
        else:
            other = maxmargin.load(tagger.save(tmp_path / "model") and tmp_path / "model")
        np.testing.assert_array_equal(other.weights_, tagger.weights_)
        assert other.predict(X) == tagger.predict(X)
        assert (other.lower_bound_, other.n_seen_) == (tagger.lower_bound_, tagger.n_seen_)
        assert other._stream.dual_value() == pytest.approx(tagger.lower_bound_, rel=1e-9)
        tagger = other
    best = SequenceTagger(C=0.3, n_hashed=hashed, tol=1e-4).fit(*together(parts))
    assert 0.5 * best.objective_ < tagger.lower_bound_ <= best.objective_
    assert tagger.verify(parts).certificate_ == "exact"


def test_a_stored_structured_svm_continues(tmp_path):
    task, X, y = candidates("chains", 30)
    svm = StructuredSVM(task, 0.3, max_support=5).partial_fit(X[:20], y[:20])
    svm.save(tmp_path / "model")
    other = maxmargin.load(tmp_path / "model", task=svm.task_)
    other.partial_fit(X[20:], y[20:])
    assert other.n_seen_ == 30
    assert other.lower_bound_ > svm.lower_bound_
    assert other.verify(X, y).certificate_ == "exact"


def test_errors_say_what_to_do():
    X, y = sentences(20)
    with pytest.raises(ValueError, match="classes must be passed"):
        SequenceTagger().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"sequence 0 has the label .* Pass all labels"):
        SequenceTagger().partial_fit(X, y, classes=["other"])
    with pytest.raises(ValueError, match="give all labels"):
        SequenceTagger().partial_fit(X, y, classes=[])
    for params in (
        {"loss": "logistic"},
        {"kernel": "rbf"},
        {"prior": GaussianPrior()},
        {"partial": "complete"},
        {"min_count": 2},
        {"forbidden_transitions": "unseen"},
    ):
        with pytest.raises(ValueError, match=f"does not support {next(iter(params))}=.*use fit"):
            SequenceTagger(**params).partial_fit(X, y, LABELS)
    with pytest.raises(NotFittedError, match="there was none"):
        SequenceTagger().verify(X, y)
    tagger = SequenceTagger().partial_fit(X, y, LABELS)
    with pytest.raises(ValueError, match="not those of the first call"):
        tagger.partial_fit(X, y, ["D", "N"])
    with pytest.raises(ValueError, match=r"sequence 0 has no label"):
        tagger.partial_fit(X[:1], [[None] * len(X[0])])
    with pytest.raises(ValueError, match="the stream began with tokens with named features"):
        tagger.partial_fit([np.ones((2, 3))], [["D", "N"]])
    with pytest.raises(ValueError, match="order changed in the middle"):
        pickle.loads(pickle.dumps(tagger)).set_params(order=2).partial_fit(X, y)
    with pytest.raises(ValueError, match="rescaling changed"):
        pickle.loads(pickle.dumps(tagger)).set_params(rescaling="slack").partial_fit(X, y)
    with pytest.raises(ValueError, match="tuples"):
        tagger.verify([1, 2])
    with pytest.raises(ValueError, match="these are 19 examples"):
        tagger.verify(X[:-1], y[:-1])
    assert tagger.certificate_ == "lower_only"
    with pytest.raises(ValueError, match=r"nonnegative=.*use fit"):
        StructuredSVM(Chain(n_labels=2), nonnegative=[0]).partial_fit([np.eye(2)], [[0, 1]])


def test_fit_ends_a_stream_and_clones_have_none():
    X, y = sentences(20)
    tagger = SequenceTagger().partial_fit(X, y, LABELS)
    assert not hasattr(clone(tagger), "_stream")
    tagger.fit(X, y)
    assert tagger.certificate_ == "exact"
    assert tagger.partial_fit(X, y).n_seen_ == 20  # the labels of fit
    svm = StructuredSVM(Chain(n_labels=2)).partial_fit([np.eye(2)], [np.array([0, 1])])
    assert not hasattr(svm.fit([np.eye(2)], [np.array([0, 1])]), "_stream")


class Failing(Lookup):
    """Inference that fails for an input that contains NaN."""

    def loss_augmented_inference(self, x, y, w):
        if np.isnan(x).any():
            raise RuntimeError("no such input")
        return super().loss_augmented_inference(x, y, w)


def test_examples_of_a_failed_call_do_not_count():
    _, X, y = candidates("python", 20)
    svm = StructuredSVM(Failing(), 0.5, max_support=15).partial_fit(X[:10], y[:10])
    before = svm.lower_bound_
    with pytest.raises(RuntimeError, match="no such input"):
        svm.partial_fit([*X[10:14], X[0] * np.nan], y[10:15])
    assert svm._stream.n_seen == svm.n_seen_ == 10
    svm.partial_fit(X[10:], y[10:])
    assert svm.lower_bound_ >= before
    best = StructuredSVM(Lookup(), 0.5, tol=1e-5).fit(X, y)
    assert svm.verify(X, y).lower_bound_ <= best.objective_ <= svm.objective_ * (1 + 1e-5)

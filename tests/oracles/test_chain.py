"""Chains against brute force: every labeling of short sequences is enumerated.

Claims: both argmaxes find the best legal labeling; the compiled form agrees with the plain one;
cuts are tight minorants. The working sets have a file of their own.
"""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp

from maxmargin.core.vectors import SparseVector
from maxmargin.tasks.chains.chain import Chain
from maxmargin.tasks.chains.examples import ChainExamples, predict_stacked

LENGTHS = [3, 0, 1, 4, 2, 4, 3]


def dense(v):
    return v.to_dense() if isinstance(v, SparseVector) else np.asarray(v)


class Problem:
    """Random chains with a task, and everything about them by enumeration."""

    def __init__(self, seed, K=3, d=5, masked=False, costs=False, dtype=np.float64, weights=False):
        rng = self.rng = np.random.default_rng(seed)
        options = {}
        if masked:
            # a ring of allowed moves keeps every length feasible from any start
            ring = np.eye(K, dtype=bool)[:, np.r_[1:K, 0]].T | np.eye(K, dtype=bool)
            options["allowed"] = ring | (rng.random((K, K)) < 0.2)
            options["allowed_start"] = np.arange(K) != K - 1
            options["allowed_stop"] = np.arange(K) != 0
        if costs:
            options["cost"] = rng.random((K, K)) * (1 - np.eye(K))
        self.task = Chain(K, **options)
        # few distinct features per sequence: tokens share them
        self.X = [
            sp.csr_matrix(
                np.round(rng.random((T, d)) * (rng.random((T, d)) < 0.6), 2).astype(dtype)
            )
            for T in LENGTHS
        ]
        self.legal = [self.labelings(T) for T in LENGTHS]
        self.Y = [every[rng.integers(len(every))] for every in self.legal]
        self.dim = self.task.setup(self.X, self.Y)
        self.weight = [rng.random(T) * 2 if weights else np.ones(T) for T in LENGTHS]
        self.examples = self.task.pack(self.X, self.Y, self.weight if weights else None)
        self.n = len(LENGTHS)
        self.w = rng.normal(size=self.dim)

    def labelings(self, T):
        task = self.task
        every = np.array(list(itertools.product(range(task.n_labels), repeat=T)), dtype=np.int64)
        every = every.reshape(task.n_labels**T, T)
        if T == 0:
            return every
        ok = task.allowed_start[every[:, 0]] & task.allowed_stop[every[:, -1]]
        ok &= task.allowed[every[:, :-1], every[:, 1:]].all(axis=1)
        return every[ok]

    def loss(self, i, z):
        terms = self.task.cost[self.Y[i], z] * self.weight[i] if len(z) else np.zeros(0)
        return float(terms.sum())

    def psi(self, i, y):
        """Joint features, token by token."""
        K, d = self.task.n_labels, self.X[i].shape[1]
        W, moves, start, stop = np.zeros((d, K)), np.zeros((K, K)), np.zeros(K), np.zeros(K)
        x = self.X[i].toarray()
        for t, label in enumerate(y):
            W[:, label] += x[t]
            if t:
                moves[y[t - 1], label] += 1
        if len(y):
            start[y[0]] += 1
            stop[y[-1]] += 1
        return np.concatenate([W.ravel(), moves.ravel(), start, stop])

    def value(self, i, z, w):
        return self.loss(i, z) + w @ (self.psi(i, z) - self.psi(i, self.Y[i]))

    def worst(self, i, w):
        return max(self.value(i, z, w) for z in self.legal[i])

    def objective(self, w, caps):
        return 0.5 * w @ w + sum(caps[i] * self.worst(i, w) for i in range(self.n))

    def split(self, flat):
        return np.split(flat, np.cumsum(LENGTHS)[:-1])


VARIANTS = [
    {},
    {"masked": True},
    {"costs": True, "weights": True},
    {"masked": True, "costs": True, "weights": True, "dtype": np.float32, "K": 4},
    {"K": 2, "d": 1},
    {"K": 1},
    {"K": 6, "dtype": np.float32},
]
variants = pytest.mark.parametrize("options", VARIANTS)


# -- argmaxes, features, cuts ----------------------------------------------------------------------


@variants
def test_both_argmaxes_are_those_of_enumeration(options):
    for seed in range(3):
        p = Problem(seed, **options)
        answers = p.examples.oracle(p.w, 0, p.n)
        predicted = p.examples.predict(p.w, 0, p.n)
        found = p.split(answers.labelings)
        for i in range(p.n):
            legal = {tuple(z) for z in p.legal[i]}
            assert tuple(found[i]) in legal
            assert tuple(predicted[i]) in legal
            best = p.worst(i, p.w)
            assert p.value(i, found[i], p.w) == pytest.approx(best, abs=1e-10)
            assert answers.values[i] == pytest.approx(best, abs=1e-10)
            assert answers.losses[i] == pytest.approx(p.loss(i, found[i]), abs=1e-12)
            top = max(p.psi(i, z) @ p.w for z in p.legal[i])
            assert p.psi(i, predicted[i]) @ p.w == pytest.approx(top, abs=1e-10)
        assert np.array_equal(answers.uppers, answers.values)


@variants
def test_plain_verbs_agree_with_enumeration_and_with_the_compiled_form(options):
    p = Problem(1, **options)
    task = p.task
    compiled = p.split(p.examples.oracle(p.w, 0, p.n).labelings)
    for i in range(p.n):
        x, y = p.X[i], p.Y[i]
        for z in p.legal[i][:10]:
            psi = p.psi(i, z)
            assert np.allclose(dense(task.joint_feature(x, z)), psi)
            assert np.allclose(dense(task.joint_feature(x.toarray(), z)), psi)
            assert np.allclose(dense(task.difference(x, z, y)), psi - p.psi(i, y))
        assert np.array_equal(task.inference(x, p.w), p.examples.predict(p.w, i, i + 1)[0])
        if "weights" not in options:
            assert np.array_equal(task.loss_augmented_inference(x, y, p.w), compiled[i])
            assert task.loss(y, compiled[i]) == pytest.approx(p.loss(i, compiled[i]))


@variants
def test_cut_is_tight_and_a_minorant(options):
    p = Problem(2, **options)
    s = p.rng.random(p.n)
    s[3] = 0.0
    for lo, hi in ((0, p.n), (2, 5), (1, 2)):
        answers = p.examples.oracle(p.w, lo, hi)
        cut = p.examples.cut(answers, s[lo:hi])
        assert cut.at(p.w) == pytest.approx(np.sum(s[lo:hi] * answers.values), abs=1e-10)
        for _ in range(5):
            v = p.rng.normal(size=p.dim)
            risk = sum(s[i] * p.worst(i, v) for i in range(lo, hi))
            assert cut.at(v) <= risk + 1e-10


@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("scale", [0.0, 0.1, 1.0, 30.0])
def test_passing_over_hopeless_origins_changes_nothing(scale, masked):
    rng = np.random.default_rng(0)
    K, T, d = 37, 25, 4
    allowed = (rng.random((K, K)) < 0.7) | np.eye(K, dtype=bool) if masked else None
    task = Chain(K, d, allowed=allowed)
    X = [rng.normal(size=(T, d)) for _ in range(20)]
    Y = [np.full(T, rng.integers(K)) for _ in range(20)]
    examples = task.pack(X, Y)
    w = rng.normal(size=task.dim)
    w[d * K :] *= scale  # from moves that hardly matter to moves that decide everything
    found = examples.oracle(w, 0, 20).labelings.reshape(20, T)
    for i in range(20):
        assert np.array_equal(examples.predict(w, i, i + 1)[0], task.inference(X[i], w))
        assert np.array_equal(found[i], task.loss_augmented_inference(X[i], Y[i], w))


def test_ties_go_to_the_smallest_label():
    p = Problem(0)
    w = np.zeros(p.dim)
    assert all((z == 0).all() for z in p.examples.predict(w, 0, p.n))
    found = p.split(p.examples.oracle(w, 0, p.n).labelings)
    for y, z in zip(p.Y, found, strict=True):
        assert np.array_equal(z, np.where(y == 0, 1, 0))


@pytest.mark.parametrize("index", [np.int32, np.int64])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_stacked_matrix_is_used_in_place(index, dtype):
    p = Problem(3, dtype=dtype)
    X = sp.vstack(p.X, format="csr")
    X.indices = X.indices.astype(index)
    examples = ChainExamples.from_stacked(p.task, X, LENGTHS, np.concatenate(p.Y))
    assert np.shares_memory(examples.chains.data, X.data)
    assert np.shares_memory(examples.chains.indices, X.indices)
    a, b = examples.oracle(p.w, 0, p.n), p.examples.oracle(p.w, 0, p.n)
    assert np.array_equal(a.values, b.values)
    flat = predict_stacked(p.task, p.w, X, LENGTHS)
    assert np.array_equal(flat, np.concatenate(p.examples.predict(p.w, 0, p.n)))
    from_dense = p.task.pack([x.toarray() for x in p.X], p.Y)
    assert np.allclose(from_dense.oracle(p.w, 0, p.n).values, b.values)


@pytest.mark.nightly  # compiles everything for labels of two bytes
def test_many_labels_need_two_bytes():
    K = 300
    task = Chain(K, 2)
    examples = task.pack([np.ones((2, 2))], [np.array([299, 1])])
    w = np.zeros(task.dim)
    w[280] = w[K + 280] = 1.0
    assert examples.predict(w, 0, 1)[0].tolist() == [280, 280]
    caps = np.ones(1)
    sets = examples.working_sets(caps)
    sets.stream(np.arange(1), 0.0)
    assert sets.dual_value() > 0.0


# -- refusals --------------------------------------------------------------------------------------


def test_forbidden_truth_is_refused_by_name():
    allowed = np.array([[True, False], [True, True]])
    X = [np.ones((2, 1))] * 3
    Y = [np.array([1, 1]), np.array([1, 0]), np.array([0, 1])]
    task = Chain(2, allowed=allowed)
    with pytest.raises(ValueError, match=r"example 2 goes from label 0 to label 1 at token 1"):
        task.setup(X, Y)
    with pytest.raises(ValueError, match=r"example 2 .* Correct the labels"):
        task.pack(X, Y)
    with pytest.raises(ValueError, match=r"example 1 has label 0 at its stop"):
        Chain(2, 1, allowed_stop=[False, True]).pack(X, Y)
    with pytest.raises(ValueError, match=r"example 2 has label 0 at its start"):
        Chain(2, 1, allowed_start=[False, True]).pack(X, Y)
    with pytest.raises(ValueError, match=r"example 1 has label 2"):
        Chain(2, 1).pack(X[:2], [np.array([0, 0]), np.array([0, 2])])


def test_input_without_a_legal_labeling_is_refused_by_name():
    task = Chain(2, 1, allowed=np.zeros((2, 2), dtype=bool))
    X = np.ones((3, 1))
    w = np.zeros(task.dim)
    with pytest.raises(ValueError, match=r"sequence 1, of length 2"):
        predict_stacked(task, w, X, [1, 2])
    with pytest.raises(ValueError, match=r"length 2"):
        task.inference(X[:2], w)
    assert predict_stacked(task, w, X, [1, 1, 1]).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    "options",
    [
        {"cost": np.ones((2, 2))},
        {"cost": [[0, -1], [1, 0]]},
        {"cost": np.zeros((3, 3))},
        {"allowed": np.ones(2)},
        {"allowed_stop": np.ones(3)},
        {"n_labels": 0},
    ],
)
def test_bad_options_are_refused(options):
    with pytest.raises(ValueError):
        Chain(**{"n_labels": 2, **options})


def test_lengths_must_agree():
    task = Chain(2, 1)
    with pytest.raises(ValueError, match="example 1"):
        task.pack([np.ones((2, 1)), np.ones((1, 1))], [np.array([0, 1]), np.array([0, 1])])
    with pytest.raises(ValueError, match="shape"):
        ChainExamples.from_stacked(task, np.ones((2, 3)), [2], [0, 1])
    with pytest.raises(ValueError, match="token_weight"):
        ChainExamples.from_stacked(task, np.ones((2, 1)), [2], [0, 1], [-1.0, 1.0])


# -- the constraint cache --------------------------------------------------------------------------


@variants
def test_cache_scores_and_cuts(options):
    p = Problem(4, **options)
    lo, hi = 1, p.n
    cache = p.examples.cache(lo, hi, 3)
    assert cache.scores(p.w).size == 0
    for _ in range(6):
        cache.insert(p.examples.oracle(p.rng.normal(size=p.dim), lo, hi))
    pointers, scores = cache.pointers, cache.scores(p.w)
    assert len(pointers) == hi - lo + 1
    assert np.diff(pointers).max(initial=0) <= 3
    s = p.rng.random(hi - lo)
    chosen = np.full(hi - lo, -1)
    total = 0.0
    for i in range(hi - lo):
        mine = scores[pointers[i] : pointers[i + 1]]
        assert (mine <= p.worst(lo + i, p.w) + 1e-10).all()
        if mine.size:
            chosen[i] = pointers[i] + mine.argmax()
            total += s[i] * mine.max()
    cut = cache.cut(chosen, s)
    assert cut.at(p.w) == pytest.approx(total, abs=1e-10)
    v = p.rng.normal(size=p.dim)
    assert cut.at(v) <= sum(s[i] * p.worst(lo + i, v) for i in range(hi - lo)) + 1e-10


def test_cache_forgets_the_least_recently_used():
    task = Chain(4, 1)
    examples = task.pack([np.ones((1, 1))], [np.array([0])])
    cache = examples.cache(0, 1, 2)

    def answer(label):
        w = np.zeros(task.dim)
        w[label] = 10.0
        return examples.oracle(w, 0, 1)

    probe = np.zeros(task.dim)
    probe[:4] = [0.0, 1.0, 2.0, 3.0]
    cache.insert(answer(1))
    cache.insert(answer(2))
    cache.insert(answer(0))  # the truth is not stored
    assert sorted(cache.scores(probe)) == [2.0, 3.0]
    cache.touch(np.array([0]))  # label 1 is used again, so 2 is the oldest
    cache.insert(answer(3))
    assert sorted(cache.scores(probe)) == [2.0, 4.0]
    cache.insert(answer(1))  # held already: refreshed, not doubled
    assert sorted(cache.scores(probe)) == [2.0, 4.0]
    cache.touch(np.array([-1]))
    cache.insert(answer(2))
    assert sorted(cache.scores(probe)) == [2.0, 3.0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_cuts_of_few_tokens_among_many_features_are_the_weighted_differences(dtype):
    rng, K, d = np.random.default_rng(3), 3, 50_000
    X = [sp.random(T, d, 2e-4, "csr", dtype=dtype, random_state=rng) for T in LENGTHS]
    Y = [rng.integers(K, size=T) for T in LENGTHS]
    task, weights = Chain(K), np.array([1.0, 1.0, 0.5, 0.0, 2.0, 1.0, 0.3])
    dim = task.setup(X, Y)
    examples = task.pack(X, Y)
    cache = examples.cache(0, len(X), 2)
    for lo, hi in ((0, len(X)), (2, 6)):
        answers = examples.oracle(np.zeros(dim), lo, hi)
        cut, found = (
            examples.cut(answers, weights[lo:hi]),
            np.split(answers.labelings, np.cumsum(LENGTHS[lo:hi])[:-1]),
        )
        expected = sum(
            weights[i]
            * (dense(task.joint_feature(X[i], z)) - dense(task.joint_feature(X[i], Y[i])))
            for i, z in zip(range(lo, hi), found, strict=True)
        )
        assert isinstance(cut.plane, SparseVector)
        assert (np.diff(cut.plane.indices) > 0).all()
        np.testing.assert_allclose(dense(cut.plane), expected, rtol=1e-6, atol=1e-9)
        assert cut.offset == pytest.approx(weights[lo:hi] @ answers.losses)
    cache.insert(examples.oracle(np.zeros(dim), 0, len(X)))
    chosen = np.where(np.diff(cache.pointers) > 0, cache.pointers[:-1], -1)
    whole = examples.cut(examples.oracle(np.zeros(dim), 0, len(X)), weights)
    held = cache.cut(chosen, weights)
    assert held.offset == pytest.approx(whole.offset)
    np.testing.assert_array_equal(dense(held.plane), dense(whole.plane))

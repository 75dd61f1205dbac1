"""RankSVM finds the optimum of explicit pairs in LIBLINEAR, and of enumerated rankings in StructuredSVM."""

import itertools

import numpy as np
import pytest
from sklearn.svm import LinearSVC

from maxmargin import RankSVM, StructuredSVM
from maxmargin.solvers import CuttingPlane
from maxmargin.tasks import Task


def data(seed=0, n_queries=12, m=8, d=4, levels=4):
    rng = np.random.default_rng(seed)
    groups = np.repeat(np.arange(n_queries), m)
    X = rng.normal(size=(len(groups), d)) + rng.normal(size=(n_queries, d))[groups]
    noisy = X @ rng.normal(size=d) + rng.normal(size=len(groups))
    y = np.digitize(noisy - noisy.mean(), np.linspace(-1.5, 1.5, levels - 1))
    return X, y, groups


def differences(X, y, groups):
    pairs = [
        (i, j)
        for i, j in itertools.permutations(range(len(y)), 2)
        if groups[i] == groups[j] and y[i] > y[j]
    ]
    i, j = np.array(pairs).T
    return X[i] - X[j], i, j


@pytest.mark.parametrize("C", [1e-3, 0.1, 10.0])
@pytest.mark.parametrize("pair_weight", ["equal", "difference", "matrix", "query"])
def test_pairs_have_the_optimum_of_liblinear(C, pair_weight):
    X, y, groups = data()
    D, i, j = differences(X, y, groups)
    rng = np.random.default_rng(1)
    weight = rng.uniform(0.2, 2.0, len(y))
    params, c = {"pair_weight": pair_weight}, np.ones(len(i))
    if pair_weight == "difference":
        c = y[i] - y[j].astype(float)
    elif pair_weight == "matrix":
        params["pair_weight"] = rng.uniform(0.0, 2.0, (len(np.unique(y)),) * 2)
        c = params["pair_weight"][y[i], y[j]]
    c = c * weight[i] * weight[j]
    if pair_weight == "query":
        params = {"query_weight": "equal"}
        c = c / np.bincount(groups[i], c)[groups[i]]
    ours = RankSVM(C=C, tol=1e-7, **params).fit(X, y, groups, sample_weight=weight)
    # flip half of the differences: LIBLINEAR needs two classes
    signs = np.where(np.arange(len(i)) % 2, 1.0, -1.0)
    theirs = LinearSVC(loss="hinge", C=C, fit_intercept=False, tol=1e-10, max_iter=1_000_000)
    w = theirs.fit(D * signs[:, None], signs, sample_weight=c).coef_[0]
    F = 0.5 * w @ w + C * c @ np.maximum(0.0, 1.0 - D @ w)
    assert ours.converged_
    assert ours.certificate_ == "exact"
    assert ours.lower_bound_ <= F * (1 + 1e-9)
    assert ours.objective_ == pytest.approx(F, rel=1e-6)
    own = ours.coef_
    again = 0.5 * own @ own + C * c @ np.maximum(0.0, 1.0 - D @ own)
    assert ours.objective_ == pytest.approx(again, rel=1e-12)


class Rankings(Task):
    """One query per example; every ranking is an output."""

    def __init__(self, measure):
        self.measure = measure

    def setup(self, X, Y):
        return X[0].shape[1]

    def coefficients(self, y, ranking):
        y = np.asarray(y)
        m, a = len(y), np.zeros(len(y))
        if self.measure == "ndcg":
            a[list(ranking)] = 1.0 / np.log2(np.arange(2, m + 2))
            return a
        place = np.empty(m, dtype=int)
        place[list(ranking)] = np.arange(m)
        for i, j in itertools.permutations(range(m), 2):
            if y[i] > y[j]:
                sign = 1.0 if place[i] < place[j] else -1.0
                a[i] += sign
                a[j] -= sign
        return a / (y.sum() * (m - y.sum()))

    def joint_feature(self, x, y):
        truth, ranking = y
        return x.T @ self.coefficients(truth, ranking)

    def loss(self, y, y_hat):
        ranked = np.asarray(y[0])[list(y_hat[1])]
        if self.measure == "ndcg":
            discounts = 1.0 / np.log2(np.arange(2, len(ranked) + 2))
            return 1.0 - ranked @ discounts / (np.sort(ranked)[::-1] @ discounts)
        places = np.flatnonzero(ranked) + 1.0
        return 1.0 - np.mean(np.arange(1, len(places) + 1) / places)

    def rankings(self, x):
        return itertools.permutations(range(len(x)))

    def inference(self, x, w):
        raise NotImplementedError

    def loss_augmented_inference(self, x, y, w):
        return max(
            ((y[0], ranking) for ranking in self.rankings(x)),
            key=lambda z: self.loss(y, z) + w @ self.joint_feature(x, z),
        )


@pytest.mark.parametrize("C", [0.1, 3.0])
@pytest.mark.parametrize("measure", ["map", "ndcg"])
def test_whole_rankings_have_the_optimum_of_a_plain_task(measure, C):
    X, y, groups = data(3, n_queries=10, m=4, d=3)
    for q in range(10):  # no ties in the gains, so there is one true ranking
        y[groups == q] = (
            [0, 0, 1, 1] if measure == "map" else np.random.default_rng(q).permutation(4)
        )
    ours = RankSVM(C=C, tol=1e-6, loss=measure).fit(X, y, groups)
    inputs = [X[groups == q] for q in range(10)]
    truths = [tuple(y[groups == q].tolist()) for q in range(10)]
    outputs = [(t, tuple(np.argsort(-np.array(t), kind="stable").tolist())) for t in truths]
    theirs = StructuredSVM(Rankings(measure), C=C, tol=1e-6).fit(inputs, outputs)
    assert ours.converged_
    assert theirs.converged_
    assert ours.objective_ == pytest.approx(theirs.objective_, rel=3e-6)


@pytest.mark.parametrize("loss", ["pairs", "map", "ndcg"])
def test_cutting_planes_of_all_kinds_agree(loss):
    X, y, groups = data(5)
    y = y > 1 if loss == "map" else y
    optimum = None
    for solver in (
        "auto",
        CuttingPlane(line_search=False),
        CuttingPlane(max_planes=20),
    ):
        fit = RankSVM(C=1.0, tol=1e-5, loss=loss, solver=solver).fit(X, y, groups)
        assert fit.converged_
        optimum = optimum or fit.objective_
        assert fit.objective_ == pytest.approx(optimum, rel=2e-5)

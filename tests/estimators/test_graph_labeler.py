"""GraphLabeler: scikit-learn's manners, certificates, and what it learns."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone
from tests.data import datasets, require
from tests.reference_optima.problems import brute_force_objective

from maxmargin import GraphLabeler, LinearSVC, SequenceTagger, StructuredSVM
from maxmargin.solvers import CuttingPlane, DualCoordinate
from maxmargin.tasks import Graph, GraphLabeling, chow_liu_tree, grid_graph, multilabel_graphs


def blobs(rng, n_images, size=6, noise=0.7):
    """Noisy pictures of a rectangle."""
    X, Y = [], []
    for _ in range(n_images):
        y = np.zeros((size, size), dtype=int)
        a, b = rng.integers(0, size // 2, 2)
        y[a : a + size // 2, b : b + size // 2] = 1
        pixels = np.stack([y + noise * rng.normal(size=y.shape), np.ones(y.shape)], axis=2)
        X.append(grid_graph(pixels))
        Y.append(y)
    return X, Y


X, Y = blobs(np.random.default_rng(0), 30)
X_test, Y_test = blobs(np.random.default_rng(1), 30)


@pytest.mark.parametrize("edges", ["full", "symmetric", "potts", "attractive"])
def test_neighbors_help(edges):
    labeler = GraphLabeler(C=0.1, edges=edges, tol=1e-2).fit(X, Y)
    assert labeler.converged_
    assert labeler.certificate_ == "exact"
    assert labeler.lower_bound_ <= labeler.objective_
    assert labeler.gap_ <= 1e-2
    rows = np.concatenate([x.features for x in X]), np.concatenate([y.ravel() for y in Y])
    alone = LinearSVC(C=0.1, fit_intercept=False, loss="hinge").fit(*rows)
    apart = alone.score(
        np.concatenate([x.features for x in X_test]), np.concatenate([y.ravel() for y in Y_test])
    )
    assert labeler.score(X_test, Y_test) > apart + 0.03


@pytest.mark.parametrize("inference", ["auto", "lp", "messages"])
def test_certificate_by_reference(inference):
    rng = np.random.default_rng(3)
    n, K = 5, 3
    ring = np.array([[i, (i + 1) % n] for i in range(n)])
    graphs = [Graph(rng.normal(size=(n, 2)), ring, rng.normal(size=(n, 2))) for _ in range(8)]
    labels = [rng.integers(0, K, n) for _ in graphs]
    est = GraphLabeler(C=1.0, inference=inference, tol=1e-3, max_iter=200).fit(graphs, labels)
    exact = GraphLabeling(K, n_features=2, n_edge_features=2)
    true = brute_force_objective(
        exact,
        graphs,
        labels,
        est.weights_,
        1.0,
        outputs=lambda _: (np.array(y) for y in itertools.product(range(K), repeat=n)),
    )
    # the relaxed risk and a truncated oracle's upper bound are never below the true objective
    assert true <= est.objective_ * (1 + 1e-9)
    if inference == "auto":
        assert true == pytest.approx(est.objective_, rel=1e-6)
        assert est.converged_
    assert est.certificate_ == ("relaxed" if inference == "lp" else "exact")
    best = GraphLabeler(C=1.0, tol=1e-4).fit(graphs, labels)
    if inference != "lp":
        assert est.lower_bound_ <= best.objective_ * (1 + 1e-9)
    else:  # the relaxed optimum is above the exact one
        assert est.objective_ >= best.lower_bound_ * (1 - 1e-9)


def test_attractive_weights_are_not_negative():
    rng = np.random.default_rng(0)
    checker = np.indices((6, 6)).sum(axis=0) % 2  # neighbors never agree
    graphs = [grid_graph(rng.normal(size=(6, 6, 1))) for _ in range(5)]
    potts = GraphLabeler(edges="potts").fit(graphs, [checker] * 5)
    signed = GraphLabeler(edges="attractive").fit(graphs, [checker] * 5)
    assert potts.weights_[2:].max() < 0
    assert (signed.weights_[2:] >= 0).all()
    assert signed.objective_ >= potts.lower_bound_
    bad = Graph(np.ones((2, 1)), [[0, 1]], [[-1.0]])
    with pytest.raises(ValueError, match="negative edge features"):
        GraphLabeler(edges="attractive").fit([bad], [[0, 1]])


def test_a_chain_is_a_graph():
    """On chains the labeler minimizes what SequenceTagger minimizes, borders aside."""
    rng = np.random.default_rng(0)
    labels = [rng.integers(0, 3, 6) for _ in range(20)]
    rows = [np.eye(3)[y] + 0.7 * rng.normal(size=(6, 3)) for y in labels]
    # the tagger's first and last labels are features of the first and last token here
    ends = np.zeros((6, 2))
    ends[0, 0] = ends[-1, 1] = 1.0
    path = np.array([[t, t + 1] for t in range(5)])
    graphs = [Graph(np.hstack([x, ends]), path) for x in rows]
    tagger = SequenceTagger(C=0.5, tol=1e-3).fit(rows, labels)
    labeler = GraphLabeler(C=0.5, tol=1e-3).fit(graphs, labels)
    assert labeler.objective_ == pytest.approx(tagger.objective_, rel=1e-3)
    np.testing.assert_allclose(labeler.pair_coef_[0], tagger.transitions_, atol=0.1)


def test_solvers_agree():
    few = X[:8], Y[:8]
    fits = [
        GraphLabeler(C=0.1, tol=1e-3, solver=solver).fit(*few)
        for solver in ("auto", DualCoordinate(batch_size="all"), CuttingPlane())
    ]
    for fit in fits:
        assert fit.converged_
        assert fit.objective_ == pytest.approx(fits[0].objective_, rel=2e-3)
    task = GraphLabeling(2)
    codes = [y.ravel() for y in few[1]]
    plain = StructuredSVM(task, C=0.1, tol=1e-3).fit(few[0], codes)
    assert plain.coef_.tobytes() == fits[0].weights_.tobytes()


def test_forms_of_input_and_labels():
    words = np.array(["back", "front"])
    tuples = [(x.features, x.edges, x.edge_features) for x in X]
    sparse = [(sp.csr_matrix(f), e, sp.csr_matrix(z)) for f, e, z in tuples]
    named = [words[y].ravel() for y in Y]
    a = GraphLabeler(C=0.1).fit(X, Y)
    b = GraphLabeler(C=0.1).fit(tuples, named)
    c = GraphLabeler(C=0.1).fit(sparse, named)
    assert a.weights_.tobytes() == b.weights_.tobytes()
    assert c.objective_ == pytest.approx(a.objective_, rel=5e-2)
    assert b.classes_.tolist() == ["back", "front"]
    for p, q in zip(a.predict(X_test), b.predict(X_test), strict=True):
        assert (words[p] == q).all()


def test_weights_and_costs():
    doubled = GraphLabeler(C=0.1, tol=1e-3).fit(X[:4] + X[:2], Y[:4] + Y[:2])
    weighted = GraphLabeler(C=0.1, tol=1e-3).fit(X[:4], Y[:4], sample_weight=[2, 2, 1, 1])
    assert weighted.objective_ == pytest.approx(doubled.objective_, rel=2e-3)
    expensive = GraphLabeler(C=0.1, cost={1: 5.0}).fit(X, Y)
    fair = GraphLabeler(C=0.1).fit(X, Y)
    share = [np.mean(np.concatenate(m.predict(X_test))) for m in (expensive, fair)]
    assert share[0] > share[1]


def test_manners(tmp_path):
    est = GraphLabeler(C=0.1, edges="potts")
    assert clone(est).get_params() == est.get_params()
    with pytest.raises(Exception, match="not fitted"):
        est.predict(X)
    est.fit(X[:5], Y[:5])
    again = pickle.loads(pickle.dumps(est))
    for p, q in zip(est.predict(X_test), again.predict(X_test), strict=True):
        np.testing.assert_array_equal(p, q)
    assert est.coef_.shape == (2, 2)
    assert est.pair_coef_.shape == (2, 2, 2)
    assert est.predict([]) == []


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"cost": np.ones((3, 3))}, "cost has shape"),
    ],
)
def test_wrong_parameters(change, message):
    with pytest.raises(ValueError, match=message):
        GraphLabeler(**change).fit(X[:2], Y[:2])


def test_wrong_inputs():
    with pytest.raises(ValueError, match="graph 1 has 36 nodes but 35 labels"):
        GraphLabeler().fit(X[:2], [Y[0], Y[1].ravel()[:-1]])
    with pytest.raises(TypeError, match="must be maxmargin"):
        GraphLabeler().fit([np.zeros((3, 3))], [[0, 1, 0]])
    narrow = grid_graph(np.zeros((2, 2, 1)))
    with pytest.raises(ValueError, match="example 1 has 1 node features"):
        GraphLabeler().fit([X[0], narrow], [Y[0], np.zeros((2, 2))])
    with pytest.raises(ValueError, match="graph 0 has 1 node features"):
        GraphLabeler(C=0.1).fit(X[:2], Y[:2]).predict([narrow])


def test_several_labels_per_row():
    """A label that follows another one is found through their edge."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 2, 200)
    table = np.stack([first, np.where(rng.random(200) < 0.95, first, 1 - first)], axis=1)
    table = np.hstack([table, rng.integers(0, 2, (200, 1))])
    assert [0, 1] in chow_liu_tree(table).tolist()
    rows = np.stack([first + 0.3 * rng.normal(size=200), np.ones(200)], axis=1)
    for edges in (chow_liu_tree(table), "full", np.empty((0, 2), int)):
        graphs = multilabel_graphs(rows, edges, 3)
        est = GraphLabeler(C=0.1).fit(graphs, table)
        assert est.certificate_ == "exact"
        found = np.stack(est.predict(graphs))
        assert (found[:, :2] == table[:, :2]).mean() > 0.9


@pytest.mark.data
@pytest.mark.nightly
def test_snakes():
    train, test = require(datasets.snakes, "train"), require(datasets.snakes, "test")
    graphs = [grid_graph(x, edge_features="neighbors") for x in train.X[:100]]
    est = GraphLabeler(C=0.1).fit(graphs, train.y[:100])
    assert est.certificate_ == "exact"
    held = [grid_graph(x, edge_features="neighbors") for x in test.X]
    assert est.score(held, test.y) >= 0.95

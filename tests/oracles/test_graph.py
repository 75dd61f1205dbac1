"""Graph labeling: every argmax against the enumeration of all labelings."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.sparse.csgraph import maximum_flow
from tests.nightly import first

from maxmargin.compiled.max_flow import flow_arcs, max_flow
from maxmargin.tasks import Bounded, Graph, GraphLabeling, Relaxed, grid_graph
from maxmargin.tasks.graphs import inference as methods
from maxmargin.tasks.graphs.programs import Scores, best_integer, best_relaxed
from maxmargin.testing import check_task

# -- random problems --------------------------------------------------------------------------------


def draw(rng, n, K, m, kind="any"):
    """A graph of n nodes and about m edges with scores; integers in a third of the cases, for ties."""
    if kind == "forest":
        child = [i for i in range(1, n) if rng.random() < 0.8]
        edges = np.array([[i, rng.integers(0, i)] for i in child], dtype=int).reshape(-1, 2)
        edges = rng.permutation(n)[edges]
    else:
        edges = rng.integers(0, n, (m, 2))
        edges = edges[edges[:, 0] != edges[:, 1]]
    graph = Graph(np.zeros((n, 1)), edges)
    size = rng.choice([0.3, 1.0, 3.0])
    if rng.random() < 1 / 3:
        nodes = rng.integers(-2, 3, (n, K)).astype(float)
        pairs = rng.integers(-2, 3, (len(edges), K, K)).astype(float)
    else:
        nodes, pairs = rng.normal(size=(n, K)), size * rng.normal(size=(len(edges), K, K))
    if kind == "submodular":
        lack = pairs[:, 0, 1] + pairs[:, 1, 0] - pairs[:, 0, 0] - pairs[:, 1, 1]
        pairs[:, 0, 0] += np.maximum(lack, 0.0)
    return graph, Scores(nodes, graph.lo, graph.hi, pairs)


def enumerate_all(scores):
    n, K = scores.nodes.shape
    labelings = np.array(list(itertools.product(range(K), repeat=n)))
    values = scores.nodes[np.arange(n), labelings].sum(axis=1)
    for e, (a, b) in enumerate(zip(scores.lo, scores.hi, strict=True)):
        values = values + scores.pairs[e, labelings[:, a], labelings[:, b]]
    return labelings, values


def score(scores, y):
    n = len(y)
    pairs = scores.pairs[np.arange(len(scores.lo)), y[scores.lo], y[scores.hi]]
    return scores.nodes[np.arange(n), y].sum() + pairs.sum()


def local_polytope_value(scores):
    """The relaxation's optimum, written down row by row and solved by another algorithm of HiGHS."""
    nodes, lo, hi, pairs = scores
    n, K = nodes.shape
    m = len(lo)
    rows, right = [], []
    for i in range(n):
        row = np.zeros(n * K + m * K * K)
        row[i * K : (i + 1) * K] = 1.0
        rows.append(row)
        right.append(1.0)
    for e in range(m):
        block = n * K + e * K * K
        for k in range(K):
            low, high = np.zeros_like(rows[0]), np.zeros_like(rows[0])
            low[block + k * K : block + (k + 1) * K] = 1.0
            low[lo[e] * K + k] = -1.0
            high[block + k : block + K * K : K] = 1.0
            high[hi[e] * K + k] = -1.0
            rows += [low, high]
            right += [0.0, 0.0]
    objective = np.concatenate([nodes.ravel(), pairs.ravel()])
    found = linprog(-objective, A_eq=np.array(rows), b_eq=right, method="highs-ipm")
    return -found.fun


seeds = st.integers(0, 2**32 - 1)


@pytest.mark.parametrize("batch", range(4))
def test_forests(batch):
    rng = np.random.default_rng(batch)
    for _ in range(250):
        graph, scores = draw(rng, rng.integers(1, 7), rng.integers(1, 4), 0, "forest")
        assert graph.is_forest
        found = methods.on_forest(graph, scores)
        _, values = enumerate_all(scores)
        assert found.value == pytest.approx(values.max(), abs=1e-9)
        assert score(scores, found.y) == pytest.approx(values.max(), abs=1e-9)


def test_cycles_are_seen():
    assert not Graph(np.zeros((3, 1)), [[0, 1], [1, 2], [2, 0]]).is_forest
    assert not Graph(np.zeros((2, 1)), [[0, 1], [1, 0]]).is_forest  # two edges between two nodes
    assert Graph(np.zeros((3, 1)), np.empty((0, 2), int)).is_forest


@pytest.mark.parametrize("batch", range(4))
def test_cuts(batch):
    rng = np.random.default_rng(batch)
    for _ in range(250):
        graph, scores = draw(rng, rng.integers(1, 8), 2, rng.integers(0, 14), "submodular")
        strength = methods.cut_strength(scores)
        assert (strength >= -1e-12).all()
        found = methods.by_cut(scores, np.maximum(strength, 0.0))
        _, values = enumerate_all(scores)
        assert score(scores, found.y) == pytest.approx(values.max(), abs=1e-9)
        assert found.upper == found.value  # the cut's capacity is the flow's value
        assert methods.exact(graph, scores).value == pytest.approx(values.max(), abs=1e-9)


@pytest.mark.parametrize("batch", range(3))
def test_flow_equals_cut_and_scipy(batch):
    rng = np.random.default_rng(batch)
    for _ in range(200):
        n, m = int(rng.integers(1, 12)), int(rng.integers(0, 40))
        lo, hi = rng.integers(0, n, m), rng.integers(0, n, m)
        lo, hi = lo[lo != hi], hi[lo != hi]
        arcs = rng.integers(0, 9, len(lo)).astype(float)
        ends = rng.integers(-9, 10, n).astype(float)
        first = np.zeros(n + 1, np.int64)
        head, sister, left = (np.empty(2 * len(lo), t) for t in (np.int64, np.int64, float))
        flow_arcs(lo, hi, arcs, first, head, sister, left)
        side = np.zeros(n, bool)
        flow = max_flow(first, head, sister, left, ends.copy(), side)
        cut = arcs[side[lo] & ~side[hi]].sum()
        cut += ends[(ends > 0) & ~side].sum() - ends[(ends < 0) & side].sum()
        out, into = np.flatnonzero(ends > 0), np.flatnonzero(ends < 0)
        rows = np.concatenate([lo, np.full(len(out), n), into])
        columns = np.concatenate([hi, out, np.full(len(into), n + 1)])
        capacity = np.concatenate([arcs, ends[out], -ends[into]]).astype(np.int32)
        network = sp.csr_matrix((capacity, (rows, columns)), (n + 2, n + 2))
        assert flow == cut == maximum_flow(network, n, n + 1).flow_value


@pytest.mark.parametrize("batch", range(4))
def test_any_graph(batch):
    rng = np.random.default_rng(batch)
    for _ in range(150):
        graph, scores = draw(rng, rng.integers(1, 6), rng.integers(1, 4), rng.integers(0, 12))
        _, values = enumerate_all(scores)
        best = values.max()
        found = methods.exact(graph, scores)
        assert score(scores, found.y) == pytest.approx(found.value, abs=1e-9)
        assert found.value == pytest.approx(best, abs=1e-9)
        assert best - 1e-9 <= found.upper <= best + 1e-4
        quick = methods.messages(graph, scores)
        assert score(scores, quick.y) == pytest.approx(quick.value, abs=1e-9)
        assert quick.value <= best + 1e-9
        assert quick.upper >= best - 1e-9


def test_search_and_integer_programme_agree(monkeypatch):
    """Grids with strong random edges, where messages leave much open: branching, and HiGHS instead of it."""
    rng = np.random.default_rng(0)
    grid = grid_graph(np.zeros((4, 4, 1)))
    for K in (2, 2, 3, 3):
        nodes, pairs = rng.normal(size=(16, K)), 2 * rng.normal(size=(24, K, K))
        scores = Scores(nodes, grid.lo, grid.hi, pairs)
        monkeypatch.setattr(methods, "MAX_SUBPROBLEMS", 10_000)
        branched = methods.exact(grid, scores)
        assert branched.value == pytest.approx(score(scores, branched.y))
        assert branched.value <= branched.upper <= branched.value + 1e-8
        monkeypatch.setattr(methods, "MAX_SUBPROBLEMS", 0)
        found = methods.exact(grid, scores)
        assert found.value == pytest.approx(branched.value, abs=1e-6)
        assert found.upper >= branched.value - 1e-9


@pytest.mark.parametrize("batch", range(2))
def test_labels_ruled_out_are_in_no_best_labeling(batch):
    rng = np.random.default_rng(batch)
    ruled_out = 0
    for _ in range(250):
        graph, scores = draw(rng, rng.integers(3, 6), 3, 9)
        state = methods._Messages(graph, scores)
        methods._pass(graph, scores, state, 1e-10)
        alive = state.alive
        labelings, values = enumerate_all(scores)
        best = labelings[values >= values.max() - 1e-10]
        assert alive[np.arange(graph.n_nodes), best].all()
        ruled_out += (~alive).sum()
    assert ruled_out > 100


def test_integer_programs():
    rng = np.random.default_rng(0)
    for _ in range(40):
        _, scores = draw(rng, rng.integers(2, 6), rng.integers(2, 4), 8)
        y, bound = best_integer(scores, np.ones(scores.nodes.shape, bool))
        _, values = enumerate_all(scores)
        assert score(scores, y) == pytest.approx(values.max(), abs=1e-5)
        assert bound >= values.max() - 1e-9


def test_relaxations():
    rng = np.random.default_rng(0)
    fractional = 0
    for _ in range(60):
        graph, scores = draw(rng, rng.integers(3, 6), rng.integers(2, 4), 9)
        _, values = enumerate_all(scores)
        independent = local_polytope_value(scores)
        nodes, pairs, bound = best_relaxed(scores) if len(scores.lo) else (None, None, independent)
        assert bound == pytest.approx(independent, abs=1e-6)
        assert bound >= values.max() - 1e-9
        if nodes is not None:
            np.testing.assert_allclose(nodes.sum(axis=1), 1.0, atol=1e-7)
            np.testing.assert_allclose(pairs.sum(axis=2), nodes[scores.lo], atol=1e-7)
            np.testing.assert_allclose(pairs.sum(axis=1), nodes[scores.hi], atol=1e-7)
        found = methods.relaxed(graph, scores)
        fractional += isinstance(found.y, Relaxed)
        assert found.value == pytest.approx(independent, abs=1e-6)
        assert found.upper >= independent - 1e-7
    assert fractional > 5


# -- the task ---------------------------------------------------------------------------------------


def examples(rng, n, K, m, *, sparse):
    X, Y = [], []
    for _ in range(3):
        edges = rng.integers(0, n, (m, 2))
        edges = edges[edges[:, 0] != edges[:, 1]]
        features, more = rng.normal(size=(n, 2)), rng.normal(size=(len(edges), 2))
        if sparse:
            features, more = sp.csr_matrix(features), sp.csr_matrix(more)
        X.append((features, edges, more))
        Y.append(rng.integers(0, K, n))
    return X, Y


def all_outputs(K):
    return lambda x: (np.array(y) for y in itertools.product(range(K), repeat=x[0].shape[0]))


@pytest.mark.parametrize("edges", first(1, ["full", "symmetric", "potts"]))
@pytest.mark.parametrize("inference", ["auto", "lp"])
@given(seed=seeds)
def test_task(edges, inference, seed):
    rng = np.random.default_rng(seed)
    n, K, m = int(rng.integers(1, 5)), int(rng.integers(1, 4)), int(rng.integers(0, 7))
    X, Y = examples(rng, n, K, m, sparse=bool(rng.integers(2)))
    cost = rng.random((K, K)) * (1 - np.eye(K)) if rng.random() < 0.5 else None
    task = GraphLabeling(K, edges=edges, inference=inference, cost=cost)
    check_task(task, X, Y, outputs=all_outputs(K), n_trials=4, random_state=seed % 1000)


@given(seed=seeds)
def test_messages_bound_the_risk(seed):
    rng = np.random.default_rng(seed)
    X, Y = examples(rng, 4, 3, 8, sparse=False)
    task = GraphLabeling(3, inference="messages")
    w = 3 * rng.normal(size=task.setup(X, Y))
    exact = GraphLabeling(3, n_features=2, n_edge_features=2)
    for x, y in zip(X, Y, strict=True):

        def value(y_hat, x=x, y=y):
            return exact.loss(y, y_hat) + exact.joint_feature(x, y_hat) @ w

        best = max(value(y_hat) for y_hat in all_outputs(3)(x))
        answer = task.loss_augmented_inference(x, y, w)
        found, upper = answer if isinstance(answer, Bounded) else (answer, value(answer))
        assert value(found) - 1e-9 <= best <= upper + 1e-9


def test_direction_matters_for_full_edges_only():
    rng = np.random.default_rng(0)
    features, y = np.zeros((2, 1)), np.array([0, 1])
    for edges, differs in (("full", True), ("symmetric", False), ("potts", False)):
        task = GraphLabeling(2, edges=edges, n_features=1, n_edge_features=1)
        w = rng.normal(size=task.dim)
        there, back = ((features, [pair]) for pair in ([0, 1], [1, 0]))
        a, b = task.joint_feature(there, y) @ w, task.joint_feature(back, y) @ w
        assert bool(a != b) is differs
        scores = [task.scores(Graph(*x), w) for x in (there, back)]
        assert score(scores[0], y) == pytest.approx(a)
        assert score(scores[1], y) == pytest.approx(b)


def test_grids():
    image = np.arange(24.0).reshape(3, 4, 2)
    graph = grid_graph(image)
    assert graph.n_edges == 3 * 3 + 2 * 4
    right, down = graph.edges[:9], graph.edges[9:]
    assert (right[:, 1] == right[:, 0] + 1).all()
    assert (down[:, 1] == down[:, 0] + 4).all()
    np.testing.assert_array_equal(graph.edge_features[:9], [[1, 0]] * 9)
    calm = grid_graph(image, edge_features="contrast").edge_features
    assert calm.shape == (17, 6)
    assert ((calm[:, 2:].max(axis=1) > 0) & (calm[:, 2:].max(axis=1) < 1)).all()
    both = grid_graph(image, edge_features="neighbors").edge_features.toarray()
    np.testing.assert_array_equal(both[0], [1, 0, 0, 1, 2, 3, 0, 0, 0, 0])
    np.testing.assert_array_equal(both[9], [0, 1, 0, 0, 0, 0, 0, 1, 8, 9])


@pytest.mark.parametrize(
    ("x", "message"),
    [
        ((np.zeros((2, 1)), [[0, 2]]), "edge 0 joins the nodes"),
        ((np.zeros((2, 1)), [[1, 1]]), "with itself"),
        ((np.zeros((2, 1)), [[0.5, 1.0]]), "array of integers"),
        ((np.zeros(2), [[0, 1]]), "must be a matrix"),
        ((np.array([[np.nan], [0]]), [[0, 1]]), "NaN"),
        ((np.zeros((2, 1)), [[0, 1]], np.ones((2, 1))), "edge_features has 2 rows"),
    ],
)
def test_wrong_graphs(x, message):
    with pytest.raises(ValueError, match=message):
        Graph(*x)

"""Graph labeling: one label per node of a graph.

    Psi(x, y)     =  sum_i x_i in column y_i  +  sum over edges (u, v) of z_uv in column pair(y_u, y_v)
    Delta(y, y^)  =  sum_i cost[y_i, y^_i]

An input is a :class:`maxmargin.tasks.Graph` or a tuple (features, edges[, edge_features]). An output is an
array of labels 0 .. K-1, one per node. The weight vector holds the weights of node features x labels, then
those of edge features x kinds of pairs. ``edges`` says which pairs of labels share a weight:

    "full"       each ordered pair has its own weight; edges are directed, from first to second node
    "symmetric"  (a, b) and (b, a) share a weight
    "potts"      one weight per edge feature, for pairs of equal labels; other pairs have score 0
    "attractive" as "potts", with weights that training must keep nonnegative
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.checks import cost_matrix, integer, one_of
from maxmargin.core.vectors import Array, IntArray, Vector, from_pairs, sparsify
from maxmargin.tasks.base import Bounded, Task
from maxmargin.tasks.graphs import inference as graph_inference
from maxmargin.tasks.graphs.inputs import Graph, as_graph
from maxmargin.tasks.graphs.programs import Relaxed, Scores
from maxmargin.tasks.slack_search import common_divisor

_METHODS = {
    "auto": graph_inference.exact,
    "messages": graph_inference.messages,
    "lp": graph_inference.relaxed,
}


class GraphLabeling(Task):
    """Label every node of a graph, with scores of nodes and of pairs of neighboring nodes.

    Parameters
    ----------
    n_labels : int
        Number of labels K.
    edges : {"full", "symmetric", "potts", "attractive"}, default "full"
        Which pairs of labels share a weight. "full": each ordered pair has its own (directed edges).
        "symmetric": (a, b) and (b, a) share one. "potts": one weight for equal labels, and score 0 for
        different ones. "attractive": as "potts", for nonnegative weights.
    inference : {"auto", "messages", "lp"}, default "auto"
        The inference algorithm. "auto" is exact: dynamic programming on forests, a minimum cut for two labels
        if all edges favor equal labels, else message passing and, if its bound is not tight, branch and bound
        or an integer program. "messages" stops after message passing; answers are
        :class:`maxmargin.tasks.Bounded`, and the certificate remains valid. "lp" returns the optimum of the
        linear relaxation; bounds then hold for the relaxed risk, and ``oracle_kind`` is "overgenerating".
    cost : (K, K) array, optional
        ``cost[i, j]`` is the cost of predicting label j when the true label is i: nonnegative, zero on the
        diagonal. The default is 0/1.
    n_features, n_edge_features : int, optional
        Numbers of columns of the inputs. By default, ``setup`` takes them from the first input.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.tasks import Graph, GraphLabeling
    >>> task = GraphLabeling(n_labels=2, edges="potts")
    >>> square = Graph(np.array([[2.0], [-0.5], [1.0], [1.0]]), [[0, 1], [1, 2], [2, 3], [3, 0]])
    >>> task.setup([square], [np.array([1, 1, 1, 1])])
    3
    >>> w = np.array([0.0, 1.0, 0.4])   # feature with label 0, with label 1, equal labels
    >>> task.inference(square, w)
    array([1, 1, 1, 1])
    """

    def __init__(
        self,
        n_labels: int,
        *,
        edges: str = "full",
        inference: str = "auto",
        cost: npt.ArrayLike | None = None,
        n_features: int | None = None,
        n_edge_features: int | None = None,
    ) -> None:
        self.n_labels: int = integer("n_labels", n_labels)
        K = self.n_labels
        self.edges = edges
        self.method = one_of("inference", inference, _METHODS)
        self.oracle_kind = "overgenerating" if inference == "lp" else "exact"
        self.cost = cost_matrix("cost", 1.0 - np.eye(K) if cost is None else cost, K)
        self.n_features, self.n_edge_features = n_features, n_edge_features
        #: index of the weight of each pair of labels, -1 for none
        self.pair = _pair_table(edges, K)
        self.n_pairs = int(self.pair.max()) + 1

    # -- the task ---------------------------------------------------------------------------------

    @property
    def dim(self) -> int:
        """Length of the weight vector."""
        return self.n_node_weights + int(self.n_edge_features or 0) * self.n_pairs

    @property
    def n_node_weights(self) -> int:
        """Number of node weights, which come before the edge weights."""
        if self.n_features is None or self.n_edge_features is None:
            raise ValueError("the number of features is unknown: call setup(X, Y) first.")
        return self.n_features * self.n_labels

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            graph, labels = as_graph(x), np.asarray(y)
            if self.n_features is None or self.n_edge_features is None:
                self.n_features = int(graph.features.shape[1])
                self.n_edge_features = int(graph.edge_features.shape[1])
            self.check_graph(graph, f"example {i}")
            if labels.shape != (graph.n_nodes,):
                raise ValueError(
                    f"example {i} has {graph.n_nodes} nodes, but its labels have shape {labels.shape}."
                )
            if (
                labels.dtype.kind not in "iu"
                or (labels < 0).any()
                or (labels >= self.n_labels).any()
            ):
                raise ValueError(f"example {i}: labels must be integers 0 .. {self.n_labels - 1}.")
        return self.dim

    def check_graph(self, graph: Graph, what: str) -> None:
        """Raise a ValueError if the graph has a wrong number of features."""
        own = graph.features.shape[1], graph.edge_features.shape[1]
        if own != (self.n_features, self.n_edge_features):
            raise ValueError(
                f"{what} has {own[0]} node features and {own[1]} edge features; expected "
                f"{self.n_features} and {self.n_edge_features}."
            )

    def joint_feature(self, x: Any, y: Any) -> Vector:
        graph = as_graph(x)
        nodes, pairs = self._weights_of(graph, y)
        return self._gather(graph, slice(None), nodes, slice(None), pairs)

    def difference(self, x: Any, y_a: Any, y_b: Any) -> Vector:
        """Psi(x, y_a) - Psi(x, y_b), from the nodes and edges whose labels differ."""
        graph = as_graph(x)
        nodes_a, pairs_a = self._weights_of(graph, y_a)
        nodes_b, pairs_b = self._weights_of(graph, y_b)
        nodes_a -= nodes_b
        pairs_a -= pairs_b
        at, along = np.flatnonzero(nodes_a.any(axis=1)), np.flatnonzero(pairs_a.any(axis=1))
        return self._gather(graph, at, nodes_a[at], along, pairs_a[along])

    def loss(self, y: Any, y_hat: Any) -> float:
        truth = np.asarray(y)
        if isinstance(y_hat, Relaxed):
            return float((self.cost[truth] * y_hat.nodes).sum())
        return float(self.cost[truth, np.asarray(y_hat)].sum())

    def loss_step(self, x: Any, y: Any) -> float:
        """The largest common divisor of the costs."""
        return common_divisor(self.cost.ravel().tolist())

    def same(self, y_a: Any, y_b: Any) -> bool:
        relaxed = isinstance(y_a, Relaxed), isinstance(y_b, Relaxed)
        if all(relaxed):
            return np.array_equal(y_a.nodes, y_b.nodes) and np.array_equal(y_a.pairs, y_b.pairs)
        return not any(relaxed) and np.array_equal(y_a, y_b)

    def inference(self, x: Any, w: Array) -> Any:
        graph = as_graph(x)
        return _METHODS[self.method](graph, self.scores(graph, w)).y

    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        graph = as_graph(x)
        scores = self.scores(graph, w)
        scores.nodes[:] += self.cost[np.asarray(y)]
        found = _METHODS[self.method](graph, scores)
        return found.y if found.upper <= found.value else Bounded(found.y, found.upper)

    def kernel_inputs(self, x: Any) -> Any:
        """The node features. Edge features remain linear."""
        return as_graph(x).features

    def with_kernel_inputs(self, x: Any, rows: Any) -> Graph:
        """The same graph with other node features."""
        return as_graph(x).with_features(rows)

    def project_weights(self, w: Array, factor: Array) -> Array:
        """Multiply the node weights by ``factor``; only node scores depend on the rows."""
        split = self.n_node_weights
        return np.concatenate([(factor @ w[:split].reshape(-1, self.n_labels)).ravel(), w[split:]])

    def scores(self, graph: Graph, w: Array) -> Scores:
        """Scores of node labels and of pairs of labels."""
        K, split = self.n_labels, self.n_node_weights
        nodes = graph.features @ w[:split].reshape(-1, K)
        kinds = np.zeros(
            (graph.n_edges, self.n_pairs + 1)
        )  # the last column is for pairs without a weight
        kinds[:, :-1] = graph.edge_features @ w[split:].reshape(-1, self.n_pairs)
        pairs = kinds[:, self.pair]
        if self.edges == "full" and graph.flipped.any():
            pairs[graph.flipped] = pairs[graph.flipped].transpose(0, 2, 1)
        return Scores(np.ascontiguousarray(nodes), graph.lo, graph.hi, np.ascontiguousarray(pairs))

    # -- labelings as weights of labels and of kinds of pairs ---------------------------------------

    def _weights_of(self, graph: Graph, y: Any) -> tuple[Array, Array]:
        """Indicators (or weights) of labels, (n, K), and of kinds of pairs, (m, P)."""
        m, P = graph.n_edges, self.n_pairs
        kinds = np.zeros((m, P + 1))
        if isinstance(y, Relaxed):
            flat = y.pairs.reshape(m, self.n_labels**2)
            for column, kind in enumerate(self.pair.ravel()):
                kinds[:, kind] += flat[:, column]
            return y.nodes.copy(), kinds[:, :P]
        labels = np.asarray(y, dtype=np.int64)
        nodes = np.zeros((graph.n_nodes, self.n_labels))
        nodes[np.arange(graph.n_nodes), labels] = 1.0
        ends = labels[graph.edges]
        kinds[np.arange(m), self.pair[ends[:, 0], ends[:, 1]]] = 1.0
        return nodes, kinds[:, :P]

    def _gather(self, graph: Graph, at: Any, nodes: Array, along: Any, pairs: Array) -> Vector:
        """The weighted sum of the features of the nodes ``at`` and the edges ``along``."""
        first = _product(graph.features[at], nodes)
        second = _product(graph.edge_features[along], pairs)
        if not sp.issparse(first) and not sp.issparse(second):
            return sparsify(np.concatenate([first.ravel(), second.ravel()]))
        (index, value), (more_index, more_value) = _entries(first), _entries(second)
        return from_pairs(
            np.concatenate([index, more_index + self.n_node_weights]),
            np.concatenate([value, more_value]),
            self.dim,
        )


def _product(rows: Any, weights: Array) -> Any:
    return rows.T @ (sp.csr_matrix(weights) if sp.issparse(rows) else weights)


def _entries(block: Any) -> tuple[IntArray, Array]:
    """Flat indices and values of the nonzero entries of a matrix."""
    if not sp.issparse(block):
        flat = np.asarray(block).ravel()
        places = np.flatnonzero(flat)
        return places, flat[places]
    entries = block.tocoo()
    return entries.row.astype(np.int64) * block.shape[1] + entries.col, entries.data


def _pair_table(edges: str, K: int) -> IntArray:
    if edges == "full":
        return np.arange(K * K).reshape(K, K)
    if edges == "symmetric":
        table = np.zeros((K, K), dtype=np.int64)
        upper = np.triu_indices(K)
        table[upper] = np.arange(len(upper[0]))
        return np.maximum(table, table.T)
    if edges in ("potts", "attractive"):
        return np.where(np.eye(K, dtype=bool), 0, -1)
    raise ValueError(f"edges must be 'full', 'symmetric', 'potts' or 'attractive', got {edges!r}.")

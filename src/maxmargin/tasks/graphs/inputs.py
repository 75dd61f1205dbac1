"""Inputs of graph labeling: node features, edges and edge features."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import scipy.sparse as sp

from maxmargin.compiled.tree import forest_order, incidence
from maxmargin.core.matrices import canonical, check_dense
from maxmargin.core.vectors import IntArray


class Graph:
    """A graph with node and edge features, the input of graph labeling.

    Parameters
    ----------
    features : (n_nodes, d) array or sparse matrix
        One row of features per node. There is no intercept; add a column of ones for one.
    edges : (n_edges, 2) array of int
        Pairs of nodes. The order within a pair matters if edges are directed.
    edge_features : (n_edges, e) array or sparse matrix, optional
        One row of features per edge. By default, every edge has the single feature 1.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.tasks import Graph
    >>> triangle = Graph(np.eye(3), [[0, 1], [1, 2], [2, 0]])
    >>> triangle.n_nodes, triangle.n_edges, triangle.is_forest
    (3, 3, False)
    """

    def __init__(self, features: Any, edges: Any, edge_features: Any = None) -> None:
        self.features = _matrix(features, "features")
        n = self.features.shape[0]
        self.edges = _edges(edges, n)
        m = len(self.edges)
        self.edge_features = (
            np.ones((m, 1)) if edge_features is None else _matrix(edge_features, "edge features")
        )
        if self.edge_features.shape[0] != m:
            raise ValueError(
                f"the graph has {m} edges, but edge_features has {self.edge_features.shape[0]} rows."
            )
        # for inference: edges directed from the lower to the higher node
        self.flipped = self.edges[:, 0] > self.edges[:, 1]
        self.lo: IntArray = np.ascontiguousarray(self.edges.min(axis=1, initial=n))
        self.hi: IntArray = np.ascontiguousarray(self.edges.max(axis=1, initial=0))
        self.first: IntArray = np.zeros(n + 1, dtype=np.int64)
        self.incident: IntArray = np.empty(2 * m, dtype=np.int64)
        incidence(self.lo, self.hi, self.first, self.incident)
        self.order: IntArray = np.empty(n, dtype=np.int64)
        self.up: IntArray = np.empty(n, dtype=np.int64)
        #: whether the graph has no cycles
        self.is_forest = bool(
            forest_order(self.lo, self.hi, self.first, self.incident, self.order, self.up)
        )

    @property
    def n_nodes(self) -> int:
        """Number of nodes."""
        return len(self.first) - 1

    @property
    def n_edges(self) -> int:
        """Number of edges."""
        return len(self.edges)

    def with_features(self, features: Any) -> Graph:
        """The same graph with other node features."""
        other = copy.copy(self)
        other.features = _matrix(features, "features")
        if other.features.shape[0] != self.n_nodes:
            raise ValueError(
                f"features has {other.features.shape[0]} rows, but the graph has {self.n_nodes} nodes."
            )
        return other

    def __repr__(self) -> str:
        return (
            f"Graph({self.n_nodes} nodes x {self.features.shape[1]} features, "
            f"{self.n_edges} edges x {self.edge_features.shape[1]} features)"
        )


def as_graph(x: Any) -> Graph:
    """Convert a tuple (features, edges[, edge_features]) to a :class:`Graph`."""
    if isinstance(x, Graph):
        return x
    if isinstance(x, tuple | list) and len(x) in (2, 3):
        return Graph(*x)
    raise TypeError(
        "inputs must be maxmargin.tasks.Graph objects or tuples (features, edges) or (features, edges, "
        f"edge_features), got {type(x).__name__}."
    )


def _matrix(value: Any, what: str) -> Any:
    if sp.issparse(value):
        return sp.csr_matrix(canonical(value, what), dtype=np.float64)
    out = np.ascontiguousarray(value, dtype=np.float64)
    if out.ndim != 2:
        raise ValueError(f"{what} must be a matrix, got an array of shape {out.shape}.")
    check_dense(out, what)
    return out


def _edges(edges: Any, n: int) -> IntArray:
    out = np.asarray(edges)
    if out.size == 0:
        return np.empty((0, 2), dtype=np.int64)
    if out.ndim != 2 or out.shape[1] != 2 or out.dtype.kind not in "iu":
        raise ValueError(
            f"edges must be an (n_edges, 2) array of integers, got shape {out.shape} and dtype {out.dtype}."
        )
    out = np.ascontiguousarray(out, dtype=np.int64)
    bad = np.flatnonzero((out < 0).any(axis=1) | (out >= n).any(axis=1))
    if bad.size:
        raise ValueError(
            f"edge {bad[0]} joins the nodes {out[bad[0]].tolist()}, but nodes are numbered 0 .. {n - 1}."
        )
    loops = np.flatnonzero(out[:, 0] == out[:, 1])
    if loops.size:
        raise ValueError(f"edge {loops[0]} joins node {out[loops[0], 0]} with itself. Remove it.")
    return out

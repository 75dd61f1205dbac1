"""Build graphs from images and from multilabel data.

References:

- C. K. Chow and C. N. Liu, "Approximating discrete probability distributions with dependence trees", IEEE
  Transactions on Information Theory 14 (1968), 462-467, https://doi.org/10.1109/TIT.1968.1054142
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import minimum_spanning_tree

from maxmargin.core.matrices import canonical
from maxmargin.core.vectors import Array, IntArray
from maxmargin.tasks.graphs.inputs import Graph

#: scales of the contrast features, in units of the mean squared difference of neighboring pixels
CONTRASTS = (0.2, 2.0)


def grid_graph(image: Any, *, edge_features: str = "direction") -> Graph:
    """The grid of an image: one node per pixel, edges to the right and down.

    Parameters
    ----------
    image : (height, width) or (height, width, d) array
        Features of pixels.
    edge_features : {"direction", "contrast", "neighbors"}, default "direction"
        "direction": whether an edge goes right or down, one-hot. "contrast": in addition, the direction times
        ``exp(-|difference|^2 / (s mean |difference|^2))`` for s = 0.2 and s = 2, which is small if the two
        pixels differ. "neighbors": the direction, and the features of both pixels, separately for each
        direction.

    Returns
    -------
    Graph
        Nodes in the order of ``image.reshape(-1, d)``; all edges to the right come first.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.tasks import grid_graph
    >>> graph = grid_graph(np.arange(6.0).reshape(2, 3))
    >>> graph.edges.tolist()
    [[0, 1], [1, 2], [3, 4], [4, 5], [0, 3], [1, 4], [2, 5]]
    >>> graph.edge_features.sum(axis=0).tolist()
    [4.0, 3.0]
    """
    pixels = np.asarray(image, dtype=np.float64)
    if pixels.ndim not in (2, 3):
        raise ValueError(
            f"image must have shape (height, width) or (height, width, d), got {pixels.shape}."
        )
    height, width = pixels.shape[:2]
    features = pixels.reshape(height * width, -1)
    number = np.arange(height * width).reshape(height, width)
    right = np.stack([number[:, :-1].ravel(), number[:, 1:].ravel()], axis=1)
    down = np.stack([number[:-1].ravel(), number[1:].ravel()], axis=1)
    edges = np.concatenate([right, down])
    direction = np.zeros((len(edges), 2))
    direction[: len(right), 0] = 1.0
    direction[len(right) :, 1] = 1.0
    if edge_features == "direction":
        return Graph(features, edges, direction)
    if edge_features == "contrast":
        jump = ((features[edges[:, 0]] - features[edges[:, 1]]) ** 2).sum(axis=1)
        usual = jump.mean() if len(jump) and jump.any() else 1.0
        calm = [np.exp(-jump / (scale * usual))[:, None] for scale in CONTRASTS]
        return Graph(features, edges, np.hstack([direction, *(direction * part for part in calm)]))
    if edge_features == "neighbors":
        both = np.hstack([features[edges[:, 0]], features[edges[:, 1]]])
        blocks = [sp.csr_matrix(direction[:, [k]] * both) for k in (0, 1)]
        return Graph(features, edges, sp.hstack([sp.csr_matrix(direction), *blocks], "csr"))
    raise ValueError(
        f"edge_features must be 'direction', 'contrast' or 'neighbors', got {edge_features!r}."
    )


def chow_liu_tree(Y: Any) -> IntArray:
    """The maximum-mutual-information tree over labels (Chow and Liu, 1968).

    Parameters
    ----------
    Y : (n_samples, n_labels) array
        0/1 indicators.

    Returns
    -------
    (n_labels - 1, 2) array
        The edges of the spanning tree with the largest total mutual information.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.tasks import chow_liu_tree
    >>> chow_liu_tree(np.array([[0, 0, 1], [1, 1, 0], [0, 0, 0], [1, 1, 1]]))[0].tolist()
    [0, 1]
    """
    information = _mutual_information(_indicators(Y))
    # SciPy finds minimum spanning trees, and takes entries of 0 for missing edges
    tree = minimum_spanning_tree(np.triu(information.max() + 1.0 - information, 1)).tocoo()
    edges = np.stack([tree.row, tree.col], axis=1).astype(np.int64)
    return edges[np.lexsort((edges[:, 1], edges[:, 0]))]


def multilabel_graphs(X: Any, edges: Any, n_labels: int) -> list[Graph]:
    """Turn multilabel samples into graphs with one node per label.

    Node *l* of the graph of a sample has the features of the sample in block *l*, and each edge has its own
    feature. So each label has its own weights, and each edge its own weights of pairs. The node labels of a
    graph are the sample's row of the indicator matrix.

    Parameters
    ----------
    X : (n_samples, d) array or sparse matrix
        Samples. Add a column of ones for an intercept.
    edges : (n_edges, 2) array of int, or "full"
        Pairs of labels that depend on each other: :func:`chow_liu_tree`, all pairs ("full"), or none.
    n_labels : int
        Number of labels.

    Returns
    -------
    list of Graph
        One graph per sample.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import GraphLabeler
    >>> from maxmargin.tasks import chow_liu_tree, multilabel_graphs
    >>> X = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    >>> Y = X.astype(int)
    >>> graphs = multilabel_graphs(np.hstack([X, np.ones((4, 1))]), chow_liu_tree(Y), 2)
    >>> np.stack(GraphLabeler(C=10.0).fit(graphs, Y).predict(graphs)).tolist() == Y.tolist()
    True
    """
    rows = sp.csr_matrix(canonical(X) if sp.issparse(X) else X, dtype=np.float64)
    if isinstance(edges, str):
        if edges != "full":
            raise ValueError(f"edges must be 'full' or an array of pairs of labels, got {edges!r}.")
        edges = np.stack(np.triu_indices(n_labels, 1), axis=1)
    edges = np.asarray(edges, dtype=np.int64).reshape(-1, 2)
    own = sp.identity(len(edges), format="csr")
    d = rows.shape[1]
    graphs = []
    for i in range(rows.shape[0]):
        row = rows[i]
        blocks = np.concatenate([row.indices + label * d for label in range(n_labels)])
        starts = row.nnz * np.arange(n_labels + 1)
        features = sp.csr_matrix(
            (np.tile(row.data, n_labels), blocks, starts), (n_labels, n_labels * d)
        )
        graphs.append(Graph(features, edges, own))
    return graphs


def _indicators(Y: Any) -> Array:
    table = np.asarray(Y.toarray() if sp.issparse(Y) else Y, dtype=np.float64)
    if table.ndim != 2 or not np.isin(table, (0.0, 1.0)).all():
        raise ValueError("Y must be a matrix of zeros and ones with one column per label.")
    return table


def _mutual_information(table: Array) -> Array:
    """Mutual information of all pairs of columns, in nats."""
    n = max(1, len(table))
    ones = table.mean(axis=0) if len(table) else np.zeros(table.shape[1])
    out = np.zeros((table.shape[1], table.shape[1]))
    for a in (0, 1):
        for b in (0, 1):
            left, right = (table if a else 1.0 - table), (table if b else 1.0 - table)
            joint = left.T @ right / n
            chance = np.outer(ones if a else 1.0 - ones, ones if b else 1.0 - ones)
            seen = joint > 0.0
            out[seen] += joint[seen] * np.log(joint[seen] / chance[seen])
    return out

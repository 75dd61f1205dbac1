"""Supervised clustering: learn from clustered sets which pairs of items belong together.

x          features of pairs of items, an array (n, n, d); only entries with i < j are used
y          a cluster label for each of the n items
Z          co-membership: Z_ij = 1 if i and j share a cluster
Psi        sum over i < j of Z_ij x_ij
Delta      sum over i < j of |Y_ij - Z_ij|, the number of misclassified pairs; linear in Z for Y in {0, 1}:
           sum Y_ij + sum Z_ij (1 - 2 Y_ij)
argmax     correlation clustering: the Z with the largest sum Z_ij s_ij. This is NP-hard; there are three
           algorithms:

"exact"    dynamic program over subsets, for at most 16 items            certificate "exact"
"greedy"   merges, then single moves; may miss the maximum               certificate "lower_only"
"lp"       linear program: Z_ij in [0, 1], Z_ij + Z_jk - Z_ik <= 1;      certificate "relaxed"
           never misses the maximum, but Z may be fractional
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.optimize import linprog

from maxmargin.compiled.partition import best_partition, greedy_partition
from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.vectors import Array, IntArray
from maxmargin.tasks.base import Bounded, Task

Inference = Literal["exact", "greedy", "lp"]
KINDS: dict[Inference, OracleKind] = {
    "exact": "exact",
    "greedy": "undergenerating",
    "lp": "overgenerating",
}
#: maximum number of items for the exact argmax: 3^16 / 2 steps take a few tenths of a second
MOST_ITEMS = 16
#: tolerance of the solver of linear programs, for scores scaled to 1
PRECISION = 1e-9
#: triangle constraints violated by less are not added
VIOLATED = 1e-7
#: triangle constraints added at a time
MOST_ROWS = 1000


class Clustering(Task):
    """Cluster sets of items by learned scores of pairs of items.

    Inputs are arrays of shape (n, n, d) with the features of every pair; only entries with i < j are used.
    The sets can have different sizes n. Outputs are arrays of n labels, equal for items in the same cluster.
    With ``inference="lp"``, outputs are n x n matrices with entries in [0, 1].

    Parameters
    ----------
    inference : {"greedy", "lp", "exact"}, default "greedy"
        Algorithm that finds the best clustering. It determines what the certificate guarantees. "exact" takes
        at most 16 items per set.
    normalize : bool, default False
        Whether the loss is the fraction of misclassified pairs (one minus the Rand index) instead of their
        number.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import StructuredSVM
    >>> from maxmargin.tasks import Clustering
    >>> def pairs(points):
    ...     near = -np.abs(points[:, None] - points)
    ...     return np.stack([near, np.ones_like(near)], axis=2)
    >>> X = [pairs(np.array([0.0, 0.3, 4.0, 4.2])), pairs(np.array([1.0, 7.0, 7.5]))]
    >>> svm = StructuredSVM(Clustering("exact"), C=10.0).fit(X, [[0, 0, 1, 1], [0, 1, 1]])
    >>> svm.predict([pairs(np.array([2.0, 9.0, 2.2]))])[0]
    array([0, 1, 0])
    """

    def __init__(self, inference: Inference = "greedy", normalize: bool = False) -> None:
        if inference not in KINDS:
            raise ValueError(f"inference={inference!r} is unknown: use one of {', '.join(KINDS)}.")
        self.kind = inference
        self.normalize = normalize
        self.oracle_kind = KINDS[inference]  # type: ignore[misc]  # the class's is a default

    # -- the task ---------------------------------------------------------------------------------

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        if len(X) == 0:
            raise ValueError(
                "X is empty: the number of features is unknown. Pass at least one example."
            )
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            if np.ndim(x) != 3 or x.shape[0] != x.shape[1] or x.shape[2] != X[0].shape[2]:
                raise ValueError(
                    f"example {i} has shape {np.shape(x)}: inputs must have shape (n, n, d), with the same d "
                    "for all examples."
                )
            if len(y) != len(x):
                raise ValueError(
                    f"example {i} has {len(x)} items but {len(y)} labels: each item needs one label."
                )
            if self.kind == "exact" and len(x) > MOST_ITEMS:
                raise ValueError(
                    f"example {i} has {len(x)} items, but inference='exact' takes at most {MOST_ITEMS}. Use "
                    "'greedy' or 'lp'."
                )
        return int(X[0].shape[2])

    def joint_feature(self, x: Any, y: Any) -> Array:
        upper = np.triu(together(y), 1)
        return np.einsum("ij,ijk->k", upper, np.asarray(x, dtype=np.float64))

    def loss(self, y: Any, y_hat: Any) -> float:
        truth = together(y)
        wrong = float(np.triu(np.abs(truth - together(y_hat)), 1).sum())
        return wrong * self._unit(len(truth))

    def same(self, y_a: Any, y_b: Any) -> bool:
        """Whether two clusterings are equal up to renaming of the clusters."""
        return bool(np.array_equal(together(y_a), together(y_b)))

    def inference(self, x: Any, w: Array) -> Any:
        return self._best(_symmetric(np.asarray(x, dtype=np.float64) @ w))

    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        truth = together(y)
        gain = self._unit(len(truth)) * (1.0 - 2.0 * truth)
        scores = _symmetric(np.asarray(x, dtype=np.float64) @ w + gain)
        if self.kind != "lp":
            return self._best(scores)
        Z, bound = relaxed_partition(scores)
        missing = bound - float(np.triu(Z * scores, 1).sum())
        if missing <= 1e-14 * float(np.abs(scores).sum()):
            return Z
        # report the gap that the tolerance of the solver leaves
        constant = self._unit(len(truth)) * float(np.triu(truth, 1).sum())
        return Bounded(Z, constant + bound)

    # -- the argmaxes -----------------------------------------------------------------------------

    def _unit(self, n: int) -> float:
        return 1.0 / max(1, n * (n - 1) // 2) if self.normalize else 1.0

    def _best(self, scores: Array) -> Any:
        if self.kind == "lp":
            return relaxed_partition(scores)[0]
        if self.kind == "exact" and len(scores) > MOST_ITEMS:
            raise ValueError(
                f"the input has {len(scores)} items, but inference='exact' takes at most {MOST_ITEMS}."
            )
        labels = np.zeros(len(scores), dtype=np.int64)
        (best_partition if self.kind == "exact" else greedy_partition)(scores, labels)
        return _numbered(labels)

    @staticmethod
    def round(Z: npt.ArrayLike) -> IntArray:
        """Round a fractional co-membership matrix to labels, greedily; entries above 1/2 attract."""
        matrix = together(Z)
        labels = np.zeros(len(matrix), dtype=np.int64)
        greedy_partition(_symmetric(matrix - 0.5), labels)
        return _numbered(labels)


def together(y: Any) -> Array:
    """The co-membership matrix of labels; a matrix is returned as it is."""
    y = np.asarray(y)
    if y.ndim == 2:
        return y.astype(np.float64)
    return (y[:, None] == y).astype(np.float64)


def relaxed_partition(scores: Array) -> tuple[Array, float]:
    """The best co-membership matrix in [0, 1] that satisfies all triangle constraints, and an upper bound.

    Violated triangle constraints are added until there are none. A solution that violates some within the
    tolerance of the solver is scaled until it is feasible. The upper bound is the dual value of the
    multipliers lambda >= 0 of the added constraints A, ``sum lambda + sum max(0, s - A' lambda)``. It holds
    for any tolerance.
    """
    n = len(scores)
    Z = np.eye(n)
    i, j = np.triu_indices(n, 1)
    if len(i) == 0:
        return Z, 0.0
    number = np.zeros((n, n), dtype=np.int64)
    number[i, j] = number[j, i] = np.arange(len(i))
    gains = scores[i, j]
    scale = float(np.abs(gains).max()) or 1.0
    rows = sp.csr_matrix((0, len(i)))
    while True:
        answer = linprog(
            -gains / scale,
            A_ub=rows,
            b_ub=np.ones(rows.shape[0]),
            bounds=(0.0, 1.0),
            method="highs",
            options={
                "primal_feasibility_tolerance": PRECISION,
                "dual_feasibility_tolerance": PRECISION,
            },
        )
        if answer.x is None:
            raise RuntimeError(
                f"the linear program for {n} items could not be solved: {answer.message}"
            )
        z = np.clip(answer.x, 0.0, 1.0)
        z = np.where(np.abs(z - np.round(z)) < VIOLATED, np.round(z), z)
        Z[i, j] = Z[j, i] = z
        excess = _excess(Z)
        if excess.max() <= VIOLATED:
            break
        rows = sp.vstack([rows, _violated_triangles(excess, number)], format="csr")
    Z[i, j] = Z[j, i] = z / (1.0 + max(0.0, float(excess.max())))
    price = scale * np.maximum(0.0, -np.asarray(answer.ineqlin.marginals))
    return Z, float(price.sum() + np.maximum(0.0, gains - rows.T @ price).sum())


def _excess(Z: Array) -> Array:
    """Z_ij + Z_jk - Z_ik - 1 at [i, j, k]; 0 if two of the indices are equal."""
    excess = Z[:, :, None] + Z[None, :, :] - Z[:, None, :] - 1.0
    every = np.arange(len(Z))
    excess[every, every, :] = excess[:, every, every] = excess[every, :, every] = 0.0
    return excess


def _violated_triangles(excess: Array, number: IntArray) -> Any:
    """The most violated constraints Z_ij + Z_jk - Z_ik <= 1 as rows of a matrix."""
    n = len(number)
    i, j, k = np.nonzero(excess > VIOLATED)
    once = i < k
    i, j, k = i[once], j[once], k[once]
    worst = np.argsort(-excess[i, j, k], kind="stable")[:MOST_ROWS]
    i, j, k = i[worst], j[worst], k[worst]
    at = np.arange(len(i))
    columns = np.concatenate([number[i, j], number[j, k], number[i, k]])
    signs = np.repeat([1.0, 1.0, -1.0], len(i))
    shape = (len(i), n * (n - 1) // 2)
    return sp.csr_matrix((signs, (np.tile(at, 3), columns)), shape)


def _symmetric(scores: Array) -> Array:
    """The symmetric matrix with the entries above the diagonal, and a zero diagonal."""
    upper = np.triu(scores, 1)
    return upper + upper.T


def _numbered(labels: IntArray) -> IntArray:
    """Renumber clusters in the order of their first items."""
    _, first, inverse = np.unique(labels, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[inverse].astype(np.int64)

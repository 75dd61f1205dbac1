"""Multiple-instance learning: labels belong to bags of instances, not to single instances.

    x          a matrix with one row per instance (the bag)
    y          one of two labels; a bag is positive if at least one of its instances is
    h          the index of the witness, the instance that makes a positive bag positive
    Psi        the row of the witness and a constant for the intercept; zero for the negative label

The loss of a positive bag is max(0, 1 - max_h <w, x_h>), that of a negative one max(0, 1 + max_h <w, x_h>).
This is the MI-SVM, a latent SVM whose argmax tries all instances.

The initial witnesses determine which local optimum is found. They are the instances with the largest
projection on the difference of the class means, each feature divided by its variance. A mean over all
instances of all bags of a class is little affected by irrelevant instances. (The original MI-SVM starts from
the mean of each positive bag. Then the first convex problem can have its optimum close to w = 0.)

With fixed witnesses, the convex problem is a choice among candidates: all instances or none for a negative
bag, the witness or none for a positive one (see :mod:`maxmargin.tasks.enumerable_examples`).
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.contract.latent import LatentAnswers
from maxmargin.core.matrices import checked, stacked
from maxmargin.core.vectors import Array, IntArray, SparseVector, Vector
from maxmargin.tasks.enumerable_examples import CandidateSets, EnumerableExamples
from maxmargin.tasks.latent import Completed, LatentBinary


class MultipleInstance(LatentBinary):
    """Multiple-instance learning, for :class:`maxmargin.LatentStructuredSVM`.

    Inputs are dense or CSR matrices with one row per instance, at least one. There are two labels; the larger
    one is positive. The latent value of a positive bag is the index of its witness.

    Parameters
    ----------
    intercept : float, default 1.0
        Value of the constant feature. Its weight, the last one, is penalized like the others. 0 means no
        intercept.
    labels : pair, optional
        (negative, positive). By default the labels are learned from the data. Pass them if the task is for a
        model that was loaded.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import LatentStructuredSVM
    >>> from maxmargin.tasks import MultipleInstance
    >>> rng = np.random.default_rng(0)
    >>> X, y = [rng.normal(size=(5, 4)) for _ in range(40)], np.repeat([1, -1], 20)
    >>> for x in X[:20]:
    ...     x[rng.integers(5)] += 4.0
    >>> svm = LatentStructuredSVM(MultipleInstance()).fit(X, y)
    >>> bool(np.mean(svm.predict(X) == y) > 0.9), svm.certificate_
    (True, 'local')
    """

    def __init__(self, intercept: float = 1.0, labels: tuple[Any, Any] | None = None) -> None:
        self.intercept = float(intercept)
        self.labels = labels
        if labels is not None:
            self.negative, self.positive = labels

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Learn the labels and validate the bags."""
        widths = set()
        for i, x in enumerate(X):
            if getattr(x, "ndim", 0) != 2 or x.shape[0] < 1:
                raise ValueError(
                    f"bag {i} must be a matrix with at least one row; each row is an instance."
                )
            checked(x, f"bag {i}")
            widths.add(int(x.shape[1]))
        if len(widths) != 1:
            raise ValueError(
                f"all bags must have the same number of features, got {sorted(widths)}."
            )
        dim = super().setup(X, [y.item() if isinstance(y, np.generic) else y for y in Y])
        if self.labels is not None:
            if {self.negative, self.positive} != set(self.labels):
                raise ValueError(f"y must contain the labels {self.labels!r} only.")
            self.negative, self.positive = self.labels
        self._direction = _difference_of_means(X, np.array([y == self.positive for y in Y]))
        return dim

    def n_features(self, X: Sequence[Any]) -> int:
        return int(X[0].shape[1]) + (self.intercept != 0.0)

    def initial(self, x: Any, y: Any) -> int | None:
        """The instance with the largest projection on the difference of the class means."""
        return int(np.argmax(x @ self._direction)) if y == self.positive else None

    def features(self, x: Any, h: Any) -> Vector:
        if not sp.issparse(x):
            row = np.asarray(x[h], dtype=np.float64)
            return np.append(row, self.intercept) if self.intercept else row.copy()
        sparse = sp.csr_matrix(x[h])
        sparse.sum_duplicates()
        indices, values = sparse.indices.astype(np.int64), sparse.data.astype(np.float64)
        if self.intercept:
            indices, values = np.append(indices, x.shape[1]), np.append(values, self.intercept)
        keep = values != 0.0
        return SparseVector(indices[keep], values[keep], x.shape[1] + bool(self.intercept))

    def scores(self, x: Any, w: Array) -> Array:
        """The score of every instance."""
        if not self.intercept:
            return np.asarray(x @ w)
        return np.asarray(x @ w[:-1]) + self.intercept * w[-1]

    def best(self, x: Any, w: Array) -> int:
        return int(np.argmax(self.scores(x, w)))

    def decision(self, x: Any, w: Array) -> float:
        return float(self.scores(checked(x, "the bag"), w).max())

    def inference(self, x: Any, w: Array) -> tuple[Any, Any]:
        scores = self.scores(checked(x, "the bag"), w)
        h = int(np.argmax(scores))
        return (self.positive, h) if scores[h] > 0.0 else (self.negative, None)

    def pack(self, X: Sequence[Any], Y: Sequence[Any], H: Sequence[Any]) -> BagExamples:
        """The bags in compiled form."""
        return BagExamples(_Bags(self, X, Y), H)


def _difference_of_means(X: Sequence[Any], positive: npt.NDArray[np.bool_]) -> Array:
    """The mean of the positive bags minus that of the negative bags, each feature divided by its variance."""
    means = np.array([np.asarray(x.mean(axis=0)).ravel() for x in X], dtype=np.float64)
    squares = np.mean(
        [np.asarray(sp.csr_matrix(checked(x)).power(2).mean(axis=0)).ravel() for x in X], axis=0
    )
    variance = np.maximum(squares - means.mean(axis=0) ** 2, 0.0)
    difference = means[positive].mean(axis=0) - means[~positive].mean(axis=0)
    # for a constant feature, the difference is 0 too
    out: Array = np.divide(difference, variance, out=np.zeros_like(variance), where=variance > 0.0)
    return out


class _Bags:
    """All instances stacked in one matrix, followed by a row of zeros."""

    def __init__(self, task: MultipleInstance, X: Sequence[Any], Y: Sequence[Any]) -> None:
        self.task, self.X = task, X
        self.positive = np.array([y == task.positive for y in Y])
        self.counts: IntArray = np.array([x.shape[0] for x in X], dtype=np.int64)
        self.starts: IntArray = np.concatenate([[0], np.cumsum(self.counts)]).astype(np.int64)
        rows = stacked(X, "the bags", "bag", "instance").astype(np.float64, copy=False)
        if task.intercept:
            constant = np.full((rows.shape[0], 1), task.intercept)
            rows = sp.hstack([rows, sp.csr_matrix(constant)])
        self.nothing = rows.shape[0]
        self.rows = sp.vstack([rows, sp.csr_matrix((1, rows.shape[1]))], format="csr")
        self.rows.sort_indices()

    def part(self, lo: int, hi: int) -> _Bags:
        """The bags ``lo .. hi-1``."""
        first, last = int(self.starts[lo]), int(self.starts[hi])
        other = copy.copy(self)
        other.X = [self.X[i] for i in range(lo, hi)]
        other.positive, other.counts = self.positive[lo:hi], self.counts[lo:hi]
        other.starts, other.nothing = self.starts[lo : hi + 1] - first, last - first
        other.rows = sp.vstack([self.rows[first:last], self.rows[self.nothing :]], format="csr")
        return other


class BagExamples(EnumerableExamples):
    """Bags with a witness for each positive bag."""

    def __init__(self, bags: _Bags, H: Sequence[Any]) -> None:
        self._bags, self._witness = bags, list(H)
        rows, counts = [], np.where(bags.positive, 2, bags.counts + 1)
        for i, is_positive in enumerate(bags.positive):
            if is_positive:
                rows.append(np.array([bags.starts[i] + H[i], bags.nothing]))
            else:
                rows.append(np.append(bags.nothing, np.arange(*bags.starts[i : i + 2])))
        losses = np.ones(int(counts.sum()))
        losses[np.cumsum(counts) - counts] = 0.0  # the first candidate is the correct one
        super().__init__(
            bags.rows[np.concatenate(rows)], counts, np.zeros(len(counts), dtype=np.int64), losses
        )

    def part(self, lo: int, hi: int) -> BagExamples:
        """The bags ``lo .. hi-1``."""
        other: Any = super().part(lo, hi)
        other._bags, other._witness = self._bags.part(lo, hi), self._witness[lo:hi]
        part: BagExamples = other
        return part

    def complete(self, w: Array, lo: int, hi: int) -> LatentAnswers:
        """See :class:`maxmargin.core.LatentExamples`."""
        bags, first = self._bags, self._bags.starts[lo]
        scores = bags.rows[first : bags.starts[hi]] @ w
        found: list[Any] = [None] * (hi - lo)
        old, new = np.zeros(hi - lo), np.zeros(hi - lo)
        which = np.flatnonzero(bags.positive[lo:hi])
        held = [bags.starts[i] + self._witness[i] for i in (lo + which).tolist()]
        old[which] = bags.rows[held] @ w
        for k in which.tolist():
            own = scores[bags.starts[lo + k] - first : bags.starts[lo + k + 1] - first]
            found[k] = int(own.argmax())
            new[k] = own[found[k]]
        return LatentAnswers(found, new - old, np.abs(new) + np.abs(old))

    def predict(self, w: Array, lo: int, hi: int) -> list[Any]:
        bags = self._bags
        return [Completed(*bags.task.inference(bags.X[i], w)) for i in range(lo, hi)]

    def completed(self, latent: Sequence[Any]) -> BagExamples:
        return BagExamples(self._bags, latent)

    def working_sets(self, caps: Array) -> BagSets:
        return BagSets(self, caps)


class BagSets(CandidateSets):
    """Multipliers of the candidates, whose indices do not change with the witnesses."""

    def moved_to(self, examples: BagExamples, changed: IntArray, wrong_only: bool) -> BagSets:
        """The same multipliers for other witnesses."""
        other = BagSets(examples, self._stored.caps)
        other._stored.alpha[:] = self._stored.alpha
        other._stored.used[:] = self._stored.used
        other._tick = self._tick
        other.dual_value()
        return other

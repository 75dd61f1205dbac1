"""Outputs that can be listed: every input brings its candidates, each with joint features of its own.

    x          a matrix with a row of features per candidate: row j is Psi(x, j)
    y          the number of the right row, or a Choice with a loss for every row
    argmax     look at all of them; so margin and slack rescaling are both exact

Answers to choose from, translations or parses to re-rank, moves in a game, classes with features of
their own: anything a few hundred rows can hold.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.matrices import checked, numbered, stacked
from maxmargin.core.vectors import Array, SparseVector, Vector
from maxmargin.tasks.base import Task
from maxmargin.tasks.enumerable_examples import EnumerableExamples


class Choice(NamedTuple):
    """The right candidate of an example, and what each candidate would cost (0 for the right one)."""

    right: int
    losses: Array


class Enumerable(Task):
    """Choose one of the candidates that come with each input.

    Inputs are matrices (dense or CSR) with a row per candidate; they may differ in their number of rows.
    Outputs are row numbers.

    Parameters
    ----------
    cost : (K, K) array, optional
        ``cost[y, y_hat]`` of choosing y_hat where y is right, for inputs of K candidates each:
        non-negative, zero on the diagonal. The default is 0/1. Losses of a single example are given
        with its output, as a :class:`Choice`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import StructuredSVM
    >>> from maxmargin.tasks import Choice, Enumerable
    >>> X = [np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]), np.array([[0.0, 2.0], [1.0, 1.0]])]
    >>> svm = StructuredSVM(Enumerable()).fit(X, [0, Choice(1, np.array([3.0, 0.0]))])
    >>> svm.predict(X), svm.certificate_
    ([0, 1], 'exact')
    """

    def __init__(self, cost: npt.ArrayLike | None = None) -> None:
        self.cost = None if cost is None else _cost_matrix(cost)

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        if len(X) == 0:
            raise ValueError("no examples given: the number of features is not known.")
        for i, x in enumerate(X):
            if np.ndim(x) != 2 or not hasattr(x, "shape"):
                raise ValueError(f"example {i}: candidates must be a matrix with one row each.")
        widths = {int(x.shape[1]) for x in X}
        if len(widths) > 1:
            raise ValueError(
                f"the candidates have different numbers of features: {sorted(widths)}."
            )
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            try:
                self._check(x, y)
            except ValueError as error:
                raise ValueError(f"example {i}: {error}") from None
        return widths.pop()

    def joint_feature(self, x: Any, y: Any) -> Vector:
        """The candidate's row."""
        row = x[_index(y)]
        if not sp.issparse(row):
            return np.asarray(row, dtype=np.float64)
        flat = sp.csr_matrix(row)
        flat.sum_duplicates()
        keep = flat.data != 0
        return SparseVector(
            flat.indices[keep], flat.data[keep].astype(np.float64), int(flat.shape[1])
        )

    def loss(self, y: Any, y_hat: Any) -> float:
        """The example's own losses if it has any, else the cost matrix, else 0/1."""
        if isinstance(y, Choice):
            return float(y.losses[_index(y_hat)])
        if self.cost is not None:
            return float(self.cost[_index(y), _index(y_hat)])
        return float(_index(y) != _index(y_hat))

    def same(self, y_a: Any, y_b: Any) -> bool:
        return _index(y_a) == _index(y_b)

    def inference(self, x: Any, w: Array) -> int:
        return int(np.argmax(checked(x, "the candidates", numbered("candidate")) @ w))

    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> int:
        return int(np.argmax(self.losses(x, y) + x @ w))

    def slack_augmented_inference(self, x: Any, y: Any, w: Array) -> int:
        scores = x @ w
        return int(np.argmax(self.losses(x, y) * (1.0 + scores - scores[_index(y)])))

    def losses(self, x: Any, y: Any) -> Array:
        """What each candidate of ``x`` would cost."""
        if isinstance(y, Choice):
            return np.asarray(y.losses, dtype=np.float64)
        if self.cost is not None:
            return self.cost[y]
        out = np.ones(x.shape[0])
        out[y] = 0.0
        return out

    def kernel_inputs(self, x: Any) -> Any:
        """The rows of the candidates: k((x, i), (x', j)) is the kernel of two rows."""
        return x

    def with_kernel_inputs(self, x: Any, rows: Any) -> Any:
        """The rows themselves."""
        return rows

    def project_weights(self, w: Array, factor: Array) -> Array:
        """A score is a product with one row."""
        return np.asarray(factor @ w, dtype=np.float64)

    def pack(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        rescaling: Literal["margin", "slack"] = "margin",
    ) -> EnumerableExamples:
        """The examples in compiled form; ``rescaling`` says which argmax its oracle takes."""
        return EnumerableExamples(
            stacked(X, "the candidates' features", "example", "candidate"),
            [x.shape[0] for x in X],
            [_index(y) for y in Y],
            np.concatenate([self.losses(x, y) for x, y in zip(X, Y, strict=True)]),
            rescaling,
        )

    def pack_slack(self, X: Sequence[Any], Y: Sequence[Any]) -> EnumerableExamples:
        """The same for slack rescaling."""
        return self.pack(X, Y, rescaling="slack")

    def _check(self, x: Any, y: Any) -> None:
        right = y.right if isinstance(y, Choice) else y
        if int(right) != right:
            raise ValueError(f"the right candidate must be a row number, not {right!r}.")
        checked(x, "the candidates", numbered("candidate"))
        m, index = x.shape[0], _index(y)
        if not 0 <= index < m:
            raise ValueError(
                f"the right candidate is number {index}, but there are {m} candidates."
            )
        if self.cost is not None and not isinstance(y, Choice) and m != len(self.cost):
            raise ValueError(f"{m} candidates do not fit a cost matrix of size {len(self.cost)}.")
        if isinstance(y, Choice):
            losses = np.asarray(y.losses)
            if losses.shape != (m,):
                raise ValueError(f"losses of shape {losses.shape} do not fit {m} candidates.")
            if not np.isfinite(losses).all() or (losses < 0).any() or losses[index] != 0:
                raise ValueError(
                    "losses must be finite, not negative, and zero for the right candidate."
                )


def _index(y: Any) -> int:
    return int(y.right) if isinstance(y, Choice) else int(y)


def _cost_matrix(cost: npt.ArrayLike) -> Array:
    matrix = np.array(cost, dtype=np.float64)
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"cost must be a square matrix; its shape is {matrix.shape}.")
    if not np.isfinite(matrix).all() or (matrix < 0).any() or np.diag(matrix).any():
        raise ValueError("cost must be finite, not negative and zero on its diagonal.")
    return matrix

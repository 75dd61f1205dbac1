"""Enumerable outputs: each input comes with its candidates and their joint features.

    x          a matrix with one row of features per candidate: row j is Psi(x, j)
    y          the index of the correct row, or a Choice with a loss for each row
    argmax     try all candidates; so margin and slack rescaling are both exact

Use it to choose among answers, to rerank translations or parses, for moves in a game, or for classes with
features of their own: for any problem with at most a few hundred candidates per input.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from maxmargin.core.checks import cost_matrix, nonnegative
from maxmargin.core.matrices import checked, numbered, stacked
from maxmargin.core.vectors import Array, SparseVector, Vector
from maxmargin.tasks.base import Task
from maxmargin.tasks.enumerable_examples import EnumerableExamples


class Choice(NamedTuple):
    """The correct candidate of an example, and the loss of each candidate (0 for the correct one)."""

    right: int
    losses: Array


class Enumerable(Task):
    """Choose one of the candidates that each input consists of.

    Inputs are dense or CSR matrices with one row per candidate. They can have different numbers of rows.
    Outputs are row indices.

    Parameters
    ----------
    cost : (K, K) array, optional
        ``cost[i, j]`` is the cost of choosing candidate j when candidate i is correct: nonnegative, zero on
        the diagonal. It requires inputs with K candidates each. The default is 0/1. To set the losses of a
        single example, pass its output as a :class:`Choice`.

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
        self.cost = None if cost is None else cost_matrix("cost", cost)

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        if len(X) == 0:
            raise ValueError(
                "X is empty: the number of features is unknown. Pass at least one example."
            )
        for i, x in enumerate(X):
            if np.ndim(x) != 2 or not hasattr(x, "shape"):
                raise ValueError(
                    f"example {i}: the input must be a matrix with one row per candidate."
                )
        widths = {int(x.shape[1]) for x in X}
        if len(widths) > 1:
            raise ValueError(
                f"all inputs must have the same number of columns, got {sorted(widths)}."
            )
        for i, (x, y) in enumerate(zip(X, Y, strict=True)):
            try:
                self._check(x, y)
            except ValueError as error:
                raise ValueError(f"example {i}: {error}") from None
        return widths.pop()

    def joint_feature(self, x: Any, y: Any) -> Vector:
        """The row of the candidate."""
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
        """The losses of the :class:`Choice`, else those of the cost matrix, else 0/1."""
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
        """The loss of each candidate of ``x``."""
        if isinstance(y, Choice):
            return np.asarray(y.losses, dtype=np.float64)
        if self.cost is not None:
            return self.cost[y]
        out = np.ones(x.shape[0])
        out[y] = 0.0
        return out

    def kernel_inputs(self, x: Any) -> Any:
        """The rows of the candidates."""
        return x

    def with_kernel_inputs(self, x: Any, rows: Any) -> Any:
        """The rows themselves."""
        return rows

    def project_weights(self, w: Array, factor: Array) -> Array:
        """Multiply the weights by ``factor``: a score is the product of one row with them."""
        return np.asarray(factor @ w, dtype=np.float64)

    def pack(
        self,
        X: Sequence[Any],
        Y: Sequence[Any],
        rescaling: Literal["margin", "slack"] = "margin",
    ) -> EnumerableExamples:
        """The examples in compiled form, for the given rescaling."""
        return EnumerableExamples(
            stacked(X, "the candidates' features", "example", "candidate"),
            [x.shape[0] for x in X],
            [_index(y) for y in Y],
            np.concatenate([self.losses(x, y) for x, y in zip(X, Y, strict=True)]),
            rescaling,
        )

    def pack_slack(self, X: Sequence[Any], Y: Sequence[Any]) -> EnumerableExamples:
        """The examples in compiled form, for slack rescaling."""
        return self.pack(X, Y, rescaling="slack")

    def _check(self, x: Any, y: Any) -> None:
        right = y.right if isinstance(y, Choice) else y
        if int(right) != right:
            raise ValueError(f"the right candidate must be a row number, not {right!r}.")
        checked(x, "the candidates", numbered("candidate"))
        m, index = x.shape[0], _index(y)
        if not 0 <= index < m:
            raise ValueError(
                f"the index of the correct candidate is {index}, but there are {m} candidates."
            )
        if self.cost is not None and not isinstance(y, Choice) and m != len(self.cost):
            raise ValueError(
                f"there are {m} candidates, but the cost matrix is for {len(self.cost)}."
            )
        if isinstance(y, Choice):
            losses = nonnegative("losses", y.losses, (m,), ", one per candidate")
            if losses[index] != 0.0:
                raise ValueError("losses must be 0 for the correct candidate.")


def _index(y: Any) -> int:
    return int(y.right) if isinstance(y, Choice) else int(y)

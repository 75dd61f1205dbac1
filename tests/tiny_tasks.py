"""Two small tasks in plain Python whose outputs can be enumerated, for tests and benchmarks."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, Vector, from_pairs
from maxmargin.tasks.base import Task


class _Enumerated(Task):
    """A task whose argmaxes try all outputs."""

    def outputs(self, x: Any) -> Iterable[Any]:
        """Every output of ``x``."""
        raise NotImplementedError

    def _score(self, x: Any, y: Any, w: Array) -> float:
        psi = self.joint_feature(x, y)
        return float(psi @ w) if isinstance(psi, np.ndarray) else float(psi.values @ w[psi.indices])

    def inference(self, x: Any, w: Array) -> Any:
        return max(self.outputs(x), key=lambda o: self._score(x, o, w))

    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        return max(self.outputs(x), key=lambda o: self.loss(y, o) + self._score(x, o, w))

    def slack_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        own = self._score(x, y, w)
        return max(
            self.outputs(x),
            key=lambda o: self.loss(y, o) * (1.0 + self._score(x, o, w) - own),
        )


class TinyMulticlass(_Enumerated):
    """Classes 0 .. K-1 with one block of weights each; at least two classes.

    Parameters
    ----------
    cost : array of shape (K, K), optional
        ``cost[i, j]`` is the cost of predicting class j when the true class is i; 0/1 by default.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.tiny_tasks import TinyMulticlass
    >>> task = TinyMulticlass()
    >>> task.setup([np.array([1.0, 2.0])] * 2, [0, 1])
    4
    >>> task.inference(np.array([1.0, 2.0]), np.array([1.0, 0.0, 0.0, 1.0]))
    1
    """

    def __init__(self, cost: Any = None) -> None:
        self.cost = cost

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        self.n_classes = max(2, max(Y) + 1) if self.cost is None else len(self.cost)
        self.n_features = len(X[0])
        return int(self.n_classes * self.n_features)

    def outputs(self, x: Any) -> Iterable[int]:
        """Every class."""
        return range(self.n_classes)

    def joint_feature(self, x: Any, y: Any) -> Vector:
        psi = np.zeros((self.n_classes, self.n_features))
        psi[y] = x
        return psi.ravel()

    def loss(self, y: Any, y_hat: Any) -> float:
        return float(y != y_hat) if self.cost is None else float(self.cost[y][y_hat])

    def kernel_inputs(self, x: Any) -> Any:
        """The one row."""
        return np.asarray(x)[None, :]

    def with_kernel_inputs(self, x: Any, rows: Any) -> Any:
        """The row."""
        return rows[0]


class TinyChain(_Enumerated):
    """Label sequences: node features per label, transition counts, Hamming loss; sparse features.

    Inputs are arrays of shape (length, d), outputs tuples of labels 0 .. K-1.

    Examples
    --------
    >>> import numpy as np
    >>> from tests.tiny_tasks import TinyChain
    >>> task = TinyChain()
    >>> task.setup([np.ones((3, 2))], [(0, 1, 1)])
    8
    >>> task.loss((0, 1, 1), (0, 0, 0))
    2.0
    """

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        self.n_labels = max(max(y) for y in Y) + 1
        self.n_features = int(X[0].shape[1])
        self.dim = int(self.n_labels * (self.n_features + self.n_labels))
        return self.dim

    def outputs(self, x: Any) -> Iterable[tuple[int, ...]]:
        """Every label sequence of the right length."""
        return itertools.product(range(self.n_labels), repeat=len(x))

    def joint_feature(self, x: Any, y: Any) -> Vector:
        labels = np.asarray(y, dtype=np.int64)
        nodes = labels[:, None] * self.n_features + np.arange(self.n_features)
        edges = self.n_labels * self.n_features + labels[:-1] * self.n_labels + labels[1:]
        indices = np.concatenate([nodes.ravel(), edges])
        values = np.concatenate([np.asarray(x, dtype=np.float64).ravel(), np.ones(len(edges))])
        return from_pairs(indices, values, self.dim)

    def loss(self, y: Any, y_hat: Any) -> float:
        return float(sum(a != b for a, b in zip(y, y_hat, strict=True)))

    def kernel_inputs(self, x: Any) -> Any:
        """The rows of the tokens."""
        return x

    def with_kernel_inputs(self, x: Any, rows: Any) -> Any:
        """The rows themselves."""
        return rows

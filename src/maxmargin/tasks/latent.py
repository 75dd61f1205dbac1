"""The base class of tasks with latent variables. Start here to write your own.

In some problems the labeled output y does not determine the features. The missing part is the latent
variable h: which instance of a bag is positive, where the parts of an object are, how two sentences are
aligned. Then

    score        <w, Psi(x, y, h)>                            ``joint_feature(x, y, h)``
    prediction   argmax_{y, h} <w, Psi(x, y, h)>              ``inference(x, w)``
    training     argmax_{y^, h^} Delta(y, y^, h^) + <w, Psi(x, y^, h^)>
                                                              ``loss_augmented_inference(x, y, w)``
    completion   argmax_h <w, Psi(x, y, h)>                   ``complete(x, y, w)``

With h_i fixed for every example, the pair (y_i, h_i) is an output of an ordinary task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.vectors import Array, SparseVector, Vector


class Completed(NamedTuple):
    """An output and its latent variable."""

    y: Any
    h: Any


class LatentTask(ABC):
    """Base class of tasks with latent variables.

    Six Python methods are required. After :meth:`setup`, the answers of a task must not change. Its methods
    are called from several threads.

    Examples
    --------
    Two classes, where one row of x determines the class. The index of that row is latent.

    >>> import numpy as np
    >>> from maxmargin import LatentStructuredSVM
    >>> from maxmargin.tasks import LatentTask
    >>> class BestRow(LatentTask):
    ...     wrong_only = True
    ...     def setup(self, X, Y):
    ...         self.d = X[0].shape[1]
    ...         return 2 * self.d
    ...     def joint_feature(self, x, y, h):
    ...         psi = np.zeros((2, self.d))
    ...         psi[y] = x[h]
    ...         return psi.ravel()
    ...     def loss(self, y, y_hat, h_hat):
    ...         return float(y != y_hat)
    ...     def complete(self, x, y, w):
    ...         return int(np.argmax(x @ w.reshape(2, -1)[y]))
    ...     def inference(self, x, w):
    ...         h, y = np.unravel_index(np.argmax(x @ w.reshape(2, -1).T), (len(x), 2))
    ...         return int(y), int(h)
    ...     def loss_augmented_inference(self, x, y, w):
    ...         return 1 - y, self.complete(x, 1 - y, w)
    >>> rng = np.random.default_rng(0)
    >>> X, Y = [rng.normal(size=(3, 4)) for _ in range(20)], [k % 2 for k in range(20)]
    >>> for x, y in zip(X, Y):
    ...     x[rng.integers(3), y] += 4.0
    >>> svm = LatentStructuredSVM(BestRow()).fit(X, Y)
    >>> svm.predict(X) == Y, svm.stop_reason_
    (True, 'cccp')
    """

    #: what the argmaxes find; "undergenerating" is not supported, because the objective would be unknown
    oracle_kind: OracleKind = "exact"

    #: True if ``loss_augmented_inference`` only considers outputs other than y, with any h. Then
    #: Delta(y, y, h) must be 0 for all h, and the convex problems are tighter; see
    #: :mod:`maxmargin.risks.structured.latent`
    wrong_only: bool = False

    @abstractmethod
    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Learn labels and sizes from the training data, and return the dimension of Psi."""

    @abstractmethod
    def joint_feature(self, x: Any, y: Any, h: Any) -> Vector:
        """Psi(x, y, h): a dense array, or a :class:`maxmargin.core.SparseVector`."""

    @abstractmethod
    def loss(self, y: Any, y_hat: Any, h_hat: Any) -> float:
        """Delta(y, y_hat, h_hat) >= 0: the cost of predicting (y_hat, h_hat) when the true output is y."""

    @abstractmethod
    def complete(self, x: Any, y: Any, w: Array) -> Any:
        """The h with the largest score for the labeled y."""

    @abstractmethod
    def inference(self, x: Any, w: Array) -> tuple[Any, Any]:
        """The pair (y, h) with the largest score."""

    @abstractmethod
    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        """The pair (y_hat, h_hat) with the largest loss plus score, or a :class:`maxmargin.tasks.Bounded`."""

    # -- optional ---------------------------------------------------------------------------------

    def initial(self, x: Any, y: Any) -> Any | None:
        """The initial h, or None to use :meth:`complete` at w = 0, where all h tie.

        The initial value often determines which local optimum is found. It can be a value that the argmaxes
        never return (a mean, a rough alignment), as long as for every w some h of theirs has at least its
        score.
        """
        return None

    def same(self, a: Any, b: Any) -> bool:
        """Whether two outputs or latent values are equal. Override it if ``==`` cannot compare them."""
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            return bool(np.array_equal(a, b))
        return bool(a == b)


class LatentBinary(LatentTask):
    """Base class of latent SVMs: binary detection with a latent position h of the object.

    Psi(x, positive, h) = ``features(x, h)``, Psi(x, negative, .) = 0, and the loss is 0/1. The loss of a
    positive example is max(0, 1 - max_h <w, features>), that of a negative one max(0, 1 + max_h <w,
    features>), so only the positive examples make the problem nonconvex. Define three methods: the number of
    features, the features at a position h, and the best position.

    The larger of the two labels is the positive one.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import LatentStructuredSVM
    >>> from maxmargin.tasks import LatentBinary
    >>> class Window(LatentBinary):  # a window of three values of a signal
    ...     def n_features(self, X):
    ...         return 4
    ...     def features(self, x, h):
    ...         return np.append(x[h : h + 3], 1.0)
    ...     def best(self, x, w):
    ...         return int(np.argmax(np.correlate(x, w[:3], mode="valid")))
    ...     def initial(self, x, y):  # a guess: where the signal is lowest
    ...         return int(np.clip(np.argmin(x) - 1, 0, len(x) - 3)) if y else None
    >>> rng = np.random.default_rng(0)
    >>> X = [0.3 * rng.normal(size=20) for _ in range(30)]
    >>> for x in X[:15]:
    ...     h = rng.integers(17)
    ...     x[h : h + 3] += [1.0, -2.0, 1.0]
    >>> y = [True] * 15 + [False] * 15
    >>> svm = LatentStructuredSVM(Window(), C=10.0).fit(X, y)
    >>> svm.predict(X) == y
    True
    """

    wrong_only = True
    negative: Any
    positive: Any

    @abstractmethod
    def n_features(self, X: Sequence[Any]) -> int:
        """Number of features, which is the number of weights."""

    @abstractmethod
    def features(self, x: Any, h: Any) -> Vector:
        """The features at position ``h``."""

    @abstractmethod
    def best(self, x: Any, w: Array) -> Any:
        """The position h with the largest <w, features(x, h)>."""

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Learn the two labels."""
        labels = sorted(set(Y))
        if len(labels) != 2:
            raise ValueError(
                f"y must contain two labels, but it contains {len(labels)}: {labels[:5]}."
            )
        self.negative, self.positive = labels
        self.dim = int(self.n_features(X))
        return self.dim

    def decision(self, x: Any, w: Array) -> float:
        """max_h <w, features(x, h)>, which is positive if the positive label is predicted."""
        psi = self.features(x, self.best(x, w))
        return float(psi.values @ w[psi.indices] if isinstance(psi, SparseVector) else psi @ w)

    def joint_feature(self, x: Any, y: Any, h: Any) -> Vector:
        if y == self.positive:
            return self.features(x, h)
        return SparseVector(np.empty(0, dtype=np.int64), np.empty(0), self.dim)

    def loss(self, y: Any, y_hat: Any, h_hat: Any) -> float:
        return float(y != y_hat)

    def complete(self, x: Any, y: Any, w: Array) -> Any:
        return self.best(x, w) if y == self.positive else None

    def inference(self, x: Any, w: Array) -> tuple[Any, Any]:
        h = self.best(x, w)
        psi = self.features(x, h)
        score = psi.values @ w[psi.indices] if isinstance(psi, SparseVector) else psi @ w
        return (self.positive, h) if score > 0.0 else (self.negative, None)

    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> tuple[Any, Any]:
        if y == self.positive:
            return self.negative, None
        return self.positive, self.best(x, w)

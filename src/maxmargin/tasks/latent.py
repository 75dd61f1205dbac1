"""Tasks with latent variables: the one page to read before writing one of your own.

What was labeled, y, does not say all that the features need: which instance of a bag is the positive one,
where the parts of an object are, how two sentences are aligned. That rest is h, and

    score        <w, Psi(x, y, h)>                            ``joint_feature(x, y, h)``
    prediction   argmax_{y, h} <w, Psi(x, y, h)>              ``inference(x, w)``
    training     argmax_{y^, h^} Delta(y, y^, h^) + <w, Psi(x, y^, h^)>
                                                              ``loss_augmented_inference(x, y, w)``
    completion   argmax_h <w, Psi(x, y, h)>                   ``complete(x, y, w)``

With h_i given to every example the pair (y_i, h_i) is an ordinary output of an ordinary task.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.contract.examples import LatentExamples
from maxmargin.core.vectors import Array, SparseVector, Vector


class Completed(NamedTuple):
    """An output with its latent part."""

    y: Any
    h: Any


class LatentTask(ABC):
    """Base class of structured models with latent variables.

    Six methods in plain Python are enough. After :meth:`setup` a task must not change its answers: its
    methods are called from several threads.

    Examples
    --------
    Two classes and a choice of one of the rows of x; the row that speaks for a class is latent.

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

    #: what the argmaxes find; "undergenerating" ones cannot be used: the objective would not be known
    oracle_kind: OracleKind = "exact"

    #: True if ``loss_augmented_inference`` looks at outputs other than y only, whatever their h. Then
    #: Delta(y, y, h) must be 0 for all h, and the convex problems are tighter: see
    #: :mod:`maxmargin.risks.structured.latent`
    wrong_only: bool = False

    @abstractmethod
    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Learn alphabets from the training data and return the dimension of Psi."""

    @abstractmethod
    def joint_feature(self, x: Any, y: Any, h: Any) -> Vector:
        """Psi(x, y, h): a dense array, or a :class:`maxmargin.core.SparseVector`."""

    @abstractmethod
    def loss(self, y: Any, y_hat: Any, h_hat: Any) -> float:
        """Delta(y, y_hat, h_hat) >= 0: what predicting (y_hat, h_hat) costs where y was labeled."""

    @abstractmethod
    def complete(self, x: Any, y: Any, w: Array) -> Any:
        """The h of largest score for the labeled y."""

    @abstractmethod
    def inference(self, x: Any, w: Array) -> tuple[Any, Any]:
        """The pair (y, h) of largest score."""

    @abstractmethod
    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        """The pair (y_hat, h_hat) of largest loss plus score, or a :class:`maxmargin.tasks.Bounded` pair."""

    # -- optional ---------------------------------------------------------------------------------

    def initial(self, x: Any, y: Any) -> Any | None:
        """The h to begin with; None asks :meth:`complete` at w = 0, where all of them tie.

        A good guess often decides which local optimum is found. It may be a value that the argmaxes never
        answer with (a mean, a rough alignment), as long as some h of theirs scores as much at every w.
        """
        return None

    def same(self, a: Any, b: Any) -> bool:
        """Whether two outputs, or two latent values, are equal. Override it where ``==`` cannot tell."""
        if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
            return bool(np.array_equal(a, b))
        return bool(a == b)

    def pack(self, X: Sequence[Any], Y: Sequence[Any], H: Sequence[Any]) -> LatentExamples | None:
        """The examples with these completions in a compiled form, or None.

        It also completes; see :class:`maxmargin.core.LatentExamples`.
        """
        return None


class LatentBinary(LatentTask):
    """Is it there, and where? Two classes, one of which has a latent part.

    Psi(x, positive, h) = ``features(x, h)``, Psi(x, negative, .) = 0, and the loss is 0/1: the latent
    SVM. A positive example pays max(0, 1 - max_h <w, features>), a negative one max(0, 1 + max_h <w,
    features>), so that only the positives are not convex. Write three methods: the number of features,
    the features of a place, and the best place.

    The larger of the two labels is the positive one.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import LatentStructuredSVM
    >>> from maxmargin.tasks import LatentBinary
    >>> class Window(LatentBinary):  # three neighbors of a signal
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
        """Number of features, that is of weights."""

    @abstractmethod
    def features(self, x: Any, h: Any) -> Vector:
        """The features of a place h."""

    @abstractmethod
    def best(self, x: Any, w: Array) -> Any:
        """The place h of largest <w, features(x, h)>."""

    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Learn the two labels."""
        labels = sorted(set(Y))
        if len(labels) != 2:
            raise ValueError(f"two labels are needed; y holds {len(labels)}: {labels[:5]}.")
        self.negative, self.positive = labels
        self.dim = int(self.n_features(X))
        return self.dim

    def decision(self, x: Any, w: Array) -> float:
        """max_h <w, features(x, h)>: positive where the positive label is predicted."""
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

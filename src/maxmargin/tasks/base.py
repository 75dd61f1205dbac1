"""The base class of structured prediction tasks. Start here to write your own.

A task defines the joint feature of an input and an output, the loss between two outputs, and two argmaxes.
These five Python methods are required. All others are optional; they only make training faster or add
features. After :meth:`Task.setup`, the answers of a task must not change. Its methods are called from
several threads, so any state they keep must be thread-safe.

Names and argument order follow the literature:

    score        <w, Psi(x, y)>                             ``joint_feature(x, y)``
    prediction   argmax_y <w, Psi(x, y)>                    ``inference(x, w)``
    training     argmax_y^ Delta(y, y^) + <w, Psi(x, y^)>   ``loss_augmented_inference(x, y, w)``
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.contract.examples import Examples
from maxmargin.core.rounding import NEGLIGIBLE, gamma
from maxmargin.core.vectors import (
    Array,
    SparseVector,
    Vector,
    add_scaled,
    dot,
    from_pairs,
    norm,
    sparsify,
)
from maxmargin.tasks.slack_search import Point, best_product


class Bounded(NamedTuple):
    """The answer of an argmax that was stopped early: the best output found, and an upper bound.

    ``upper`` is an upper bound of max over y^ of ``Delta(y, y^) + <w, Psi(x, y^)>``. With it, the bounds of a
    fit remain valid.
    """

    y: Any
    upper: float


class Task(ABC):
    """Base class of all structured models.

    Examples
    --------
    Multiclass classification written as a structured task:

    >>> import numpy as np
    >>> from maxmargin.tasks import Task
    >>> class Multiclass(Task):
    ...     def setup(self, X, Y):
    ...         self.classes = sorted(set(Y))
    ...         self.d = len(X[0])
    ...         return self.d * len(self.classes)
    ...     def joint_feature(self, x, y):
    ...         psi = np.zeros((len(self.classes), self.d))
    ...         psi[self.classes.index(y)] = x
    ...         return psi.ravel()
    ...     def loss(self, y, y_hat):
    ...         return float(y != y_hat)
    ...     def inference(self, x, w):
    ...         return max(self.classes, key=lambda y: self.joint_feature(x, y) @ w)
    ...     def loss_augmented_inference(self, x, y, w):
    ...         return max(self.classes,
    ...                    key=lambda c: self.loss(y, c) + self.joint_feature(x, c) @ w)
    >>> task = Multiclass()
    >>> task.setup([np.ones(2)] * 2, ["a", "b"])
    4
    """

    #: what the two argmaxes find; it determines what the certificate guarantees
    oracle_kind: OracleKind = "exact"
    #: whether loss-augmented inference can return the true output
    covers_truth: bool = True

    @abstractmethod
    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Learn labels and sizes from the training data, and return the dimension of Psi."""

    @abstractmethod
    def joint_feature(self, x: Any, y: Any) -> Vector:
        """Psi(x, y): a dense array, or a :class:`maxmargin.core.SparseVector`."""

    @abstractmethod
    def loss(self, y: Any, y_hat: Any) -> float:
        """Delta(y, y_hat) >= 0, and 0 for y_hat = y."""

    @abstractmethod
    def inference(self, x: Any, w: Array) -> Any:
        """The output with the largest score."""

    @abstractmethod
    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        """The output with the largest loss plus score, or a :class:`Bounded` if the search stopped early."""

    # -- optional ---------------------------------------------------------------------------------

    def slack_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        """The output with the largest ``Delta(y, y^) * (1 + <w, Psi(x, y^) - Psi(x, y)>)``.

        By default, it is found by a few calls of ``loss_augmented_inference``, with a bound if they cannot
        prove that it is the best (:mod:`maxmargin.tasks.slack_search`).
        """
        step = self.loss_step(x, y) if self.oracle_kind == "exact" else 0.0
        best, upper = best_product(lambda s: self._at_scale(x, y, w, s, step), y, step)
        closed = upper <= best.loss * best.height * (1.0 + NEGLIGIBLE)
        return best.y if closed or self.oracle_kind == "undergenerating" else Bounded(best.y, upper)

    def _at_scale(self, x: Any, y: Any, w: Array, s: float, step: float) -> tuple[Point, float]:
        """A maximizer of Delta + s <w, Psi(x, y^) - Psi(x, y)>, and an upper bound of this maximum."""
        found, name = self.loss_augmented_inference(x, y, s * w), type(self).__name__
        bound = found.upper if isinstance(found, Bounded) else None
        y_hat = found if bound is None else found.y
        if y_hat is None:
            raise TypeError(f"{name}.loss_augmented_inference returned None.")
        loss, change = float(self.loss(y, y_hat)), self.difference(x, y_hat, y)
        if step and abs(loss / step - round(loss / step)) > 1e-6:
            raise ValueError(f"the loss {loss} is not a multiple of {name}.loss_step = {step}.")
        size = loss + s * norm(change) * norm(w)
        top = loss + s * dot(change, w)
        if bound is not None:
            top = bound - s * dot(self.joint_feature(x, y), w)
        elif self.oracle_kind == "exact" and self.covers_truth and top < -1e-8 * (1.0 + size):
            raise ValueError(
                f"the answer of {name}.loss_augmented_inference is worse than the true output. If the argmax "
                "is approximate, set oracle_kind = 'undergenerating'."
            )
        return Point(loss, 1.0 + dot(change, w), y_hat), top + gamma(len(w)) * size

    def loss_step(self, x: Any, y: Any) -> float:
        """A number of which all losses ``loss(y, y^)`` are multiples, for slack rescaling; 0 if unknown.

        It is 1 if the loss counts errors. Without it, the default ``slack_augmented_inference`` cannot
        exclude losses between those it has found, and the gap of a fit rarely closes.
        """
        return 0.0

    def quick_augmented_inference(self, x: Any, y: Any, w: Array) -> Any | None:
        """A good output that is cheap to find, or None to call ``loss_augmented_inference`` instead.

        Override it if the argmax is expensive; margin rescaling only. Solvers may use the answer to make
        progress, but never for a bound. Return None unless the output is new and has a larger loss plus score
        than the outputs returned before. Otherwise the exact argmax is never called.
        """
        return None

    def difference(self, x: Any, y_a: Any, y_b: Any) -> Vector:
        """Psi(x, y_a) - Psi(x, y_b). Override it if the difference is cheaper than two joint features."""
        a, b = self.joint_feature(x, y_a), self.joint_feature(x, y_b)
        if isinstance(a, SparseVector) and isinstance(b, SparseVector):
            return from_pairs(
                np.concatenate([a.indices, b.indices]),
                np.concatenate([a.values, -b.values]),
                a.size,
            )
        out = a.to_dense() if isinstance(a, SparseVector) else np.array(a, dtype=np.float64)
        if isinstance(b, SparseVector):
            add_scaled(out, -1.0, b)
        else:
            out -= b
        return sparsify(out)

    def same(self, y_a: Any, y_b: Any) -> bool:
        """Whether two outputs are equal. Override it for outputs that ``==`` cannot compare."""
        if isinstance(y_a, np.ndarray) or isinstance(y_b, np.ndarray):
            return bool(np.array_equal(y_a, y_b))
        return bool(y_a == y_b)

    def kernel_inputs(self, x: Any) -> Any:
        """The feature vectors in ``x`` that a kernel replaces: a dense or CSR matrix, one per row.

        Required for kernels, together with :meth:`with_kernel_inputs`. The joint feature must be linear in
        these rows, apart from a part that does not depend on them: Psi = sum_r row_r (x) e_r(y) + rest(y).
        Then each row can be replaced by phi(row), and the rest of the task stays the same: if w consists of
        functions sum_b V_b k(., u_b), the scores are those of the rows (k(row, u_b))_b with the weights V.
        """
        raise NotImplementedError(
            f"{type(self).__name__} cannot be used with a kernel: define kernel_inputs(x), which returns the "
            "rows the kernel acts on, and with_kernel_inputs(x, rows), which returns x with other rows."
        )

    def with_kernel_inputs(self, x: Any, rows: Any) -> Any:
        """The input ``x`` with ``rows`` in place of ``kernel_inputs(x)``.

        The new rows can have another number of columns, the same for all inputs. ``setup`` is called on such
        inputs.
        """
        raise NotImplementedError(
            f"{type(self).__name__} must define with_kernel_inputs(x, rows) to be used with a kernel."
        )

    def project_weights(self, w: Array, factor: Array) -> Array | None:
        """The weights v whose scores at inputs with rows ``r`` equal those of ``w`` at rows ``r @ factor``.

        Optional, for kernels only: it makes fitted models smaller and predictions faster. If it returns None,
        ``r @ factor`` is computed for every input, and sampled cuts look for the weights of the rows in
        joint features of the examples.
        """
        return None

    def pack(self, X: Sequence[Any], Y: Sequence[Any]) -> Examples | None:
        """The examples in a compiled form that answers for many examples at a time, or None.

        If it returns None, the library calls the Python methods above. Use ``maxmargin.testing.check_task``
        to check that a compiled form agrees with them.
        """
        return None

    def pack_slack(self, X: Sequence[Any], Y: Sequence[Any]) -> Examples | None:
        """As :meth:`pack`, for slack rescaling."""
        return None

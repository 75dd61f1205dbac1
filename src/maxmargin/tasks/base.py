"""The one page to read before writing a structured model of your own.

A task says what is predicted and how: the features of an input-output pair, the loss between two
outputs, and two argmaxes. Five plain Python methods are enough; everything else on this page is
optional and only makes things faster. After :meth:`Task.setup` a task must not change its answers: its
methods are called from several threads, and whatever it remembers must be safe there.

The names and the order of the arguments are those of the literature:

    score        <w, Psi(x, y)>                       ``joint_feature(x, y)``
    prediction   argmax_y <w, Psi(x, y)>              ``inference(x, w)``
    training     argmax_y^ Delta(y, y^) + <w, Psi(x, y^)>   ``loss_augmented_inference(x, y, w)``
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from maxmargin.core.contract.evaluation import OracleKind
from maxmargin.core.contract.examples import Examples
from maxmargin.core.vectors import Array, SparseVector, Vector, add_scaled, from_pairs, sparsify


class Bounded(NamedTuple):
    """Answer of an oracle that was stopped early: the best output found and what it may have
    missed.

    ``upper`` bounds max over y^ of ``Delta(y, y^) + <w, Psi(x, y^)>``, the oracle's own objective.
    The certificate stays true: the risk is then known from both sides.
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

    #: what the two argmaxes find; it decides what the certificate may claim
    oracle_kind: OracleKind = "exact"

    @abstractmethod
    def setup(self, X: Sequence[Any], Y: Sequence[Any]) -> int:
        """Learn alphabets from the training data and return the dimension of Psi."""

    @abstractmethod
    def joint_feature(self, x: Any, y: Any) -> Vector:
        """Psi(x, y): a dense array, or a :class:`maxmargin.core.SparseVector`."""

    @abstractmethod
    def loss(self, y: Any, y_hat: Any) -> float:
        """Delta(y, y_hat) >= 0, and 0 for y_hat = y."""

    @abstractmethod
    def inference(self, x: Any, w: Array) -> Any:
        """The output of largest score."""

    @abstractmethod
    def loss_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        """The output of largest loss plus score, or a :class:`Bounded` if the search was cut short."""

    # -- optional ---------------------------------------------------------------------------------

    def slack_augmented_inference(self, x: Any, y: Any, w: Array) -> Any:
        """The output of largest ``Delta(y, y^) * (1 + <w, Psi(x, y^) - Psi(x, y)>)``.

        Needed for slack rescaling only: the margin argmax would give a false upper bound there.
        """
        raise NotImplementedError(
            f"{type(self).__name__} cannot use slack rescaling: it does not define "
            "slack_augmented_inference(x, y, w), the argmax of loss * (1 + score difference). "
            "Define it, or use rescaling='margin'."
        )

    def quick_augmented_inference(self, x: Any, y: Any, w: Array) -> Any | None:
        """A good output at little cost, or None: then the argmax is asked.

        For expensive argmaxes, margin rescaling only. Solvers may take it on the way, never for a bound. A
        task that always has a quick answer would never be asked for a true one there: answer with None
        unless the output is new and ahead of those given before.
        """
        return None

    def difference(self, x: Any, y_a: Any, y_b: Any) -> Vector:
        """Psi(x, y_a) - Psi(x, y_b). Override it where only a small part of Psi differs."""
        a, b = self.joint_feature(x, y_a), self.joint_feature(x, y_b)
        if isinstance(a, SparseVector) and isinstance(b, SparseVector):
            return from_pairs(
                np.concatenate([a.indices, b.indices]),
                np.concatenate([a.values, -b.values]),
                a.size,
            )
        out = a.to_dense() if isinstance(a, SparseVector) else np.array(a, dtype=np.float64)
        add_scaled(out, -1.0, b)
        return sparsify(out)

    def same(self, y_a: Any, y_b: Any) -> bool:
        """Whether two outputs are equal. Override it for outputs that ``==`` cannot compare."""
        if isinstance(y_a, np.ndarray) or isinstance(y_b, np.ndarray):
            return bool(np.array_equal(y_a, y_b))
        return bool(y_a == y_b)

    def kernel_inputs(self, x: Any) -> Any:
        """The rows of ``x`` that a kernel acts on: a matrix, dense or CSR, of feature vectors.

        For kernels, together with :meth:`with_kernel_inputs`. The joint feature must be linear in these
        rows, apart from parts that do not depend on them: Psi = sum_r row_r (x) e_r(y) + rest(y). Then
        phi(row) can take the place of a row, and nothing else of the task changes: at a w made of
        functions sum_b V_b k(., u_b) the scores are those of the rows (k(row, u_b))_b with the weights V.
        """
        raise NotImplementedError(
            f"{type(self).__name__} cannot use a kernel: it does not define kernel_inputs(x), the rows that "
            "the kernel acts on, and with_kernel_inputs(x, rows), the same input with other rows."
        )

    def with_kernel_inputs(self, x: Any, rows: Any) -> Any:
        """The input ``x`` with these rows in place of ``kernel_inputs(x)``; they may have another number of
        columns, the same for all inputs. ``setup`` is called on such inputs."""
        raise NotImplementedError(f"{type(self).__name__} defines no with_kernel_inputs(x, rows).")

    def project_weights(self, w: Array, factor: Array) -> Array | None:
        """The weights v whose scores at inputs with rows ``r`` are those of ``w`` at rows ``r @ factor``.

        Optional, where a kernel is used: it makes fitted models smaller and their predictions faster. With
        None the product is taken for every input instead.
        """
        return None

    def pack(self, X: Sequence[Any], Y: Sequence[Any]) -> Examples | None:
        """The examples in a compiled form that answers for many at a time, or None.

        With None the library calls the Python methods above. ``maxmargin.testing.check_task``
        proves that a compiled form agrees with them.
        """
        return None

    def pack_slack(self, X: Sequence[Any], Y: Sequence[Any]) -> Examples | None:
        """The same for slack rescaling, where the oracle is another one."""
        return None

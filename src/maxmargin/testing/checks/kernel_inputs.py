"""check_kernel_inputs: check that a kernel can replace the inner products of a task's rows.

This requires a joint feature Psi(x, y) = sum_r row_r (x) e_r(y) + rest(y). An equivalent condition does not
depend on the layout of Psi: Psi is affine in the rows, and inner products of joint features depend on the
rows only through inner products of rows, so that an isometry of all rows does not change them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from maxmargin.core.vectors import Array
from maxmargin.tasks.base import Task
from maxmargin.testing.checks._common import require, require_close, require_same_vector
from maxmargin.testing.reference import dense, score

#: columns of the random rows, and of their images under an isometry
WIDTHS = 3, 5


def defines_kernel_inputs(task: Task) -> bool:
    """Whether the task defines both methods."""
    own = type(task)
    return (
        own.kernel_inputs is not Task.kernel_inputs
        and own.with_kernel_inputs is not Task.with_kernel_inputs
    )


def check_kernel_inputs(
    task: Task,
    X: Sequence[object],
    Y: Sequence[object],
    *,
    n_trials: int = 5,
    random_state: int = 0,
) -> None:
    """Check on a few examples that a task can be used with a kernel.

    The checks are: ``with_kernel_inputs`` is the inverse of ``kernel_inputs`` and accepts rows with any
    number of columns; the joint feature is affine in the rows; inner products of joint features depend only
    on inner products of rows; and ``inference`` finds equal scores after an isometry of all rows.

    Parameters
    ----------
    task : Task
        A task before ``setup``, or whose ``setup`` determines the number of columns again. ``setup`` is
        called on copies of it.
    X, Y : sequences
        A few small examples.
    n_trials : int
        Number of times that random rows replace the given ones.
    random_state : int
        Seed of the random rows.

    Raises
    ------
    AssertionError
        If a check fails. The message names the method and the numbers found.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin.tasks import Chain
    >>> from maxmargin.testing import check_kernel_inputs
    >>> check_kernel_inputs(Chain(n_labels=2), [np.eye(3)], [np.array([0, 1, 1])])
    """
    require(
        defines_kernel_inputs(task), "the task must define kernel_inputs and with_kernel_inputs"
    )
    rng = np.random.default_rng(random_state)
    _check_own_rows(task, X, Y)
    for trial in range(n_trials):
        _check_rows(task, X, Y, rng, f"trial {trial}")


def _check_own_rows(task: Task, X: Sequence[object], Y: Sequence[object]) -> None:
    own = copy.deepcopy(task)
    own.setup(X, Y)
    for i, (x, y) in enumerate(zip(X, Y, strict=True)):
        rows = own.kernel_inputs(x)
        require(
            np.ndim(rows) == 2 or sp.issparse(rows),
            f"kernel_inputs (example {i}) must return a matrix",
        )
        require_same_vector(
            own.joint_feature(own.with_kernel_inputs(x, rows), y),
            own.joint_feature(x, y),
            f"with_kernel_inputs(x, kernel_inputs(x)) is not equal to x (example {i})",
        )


class _Inputs:
    """The examples with other rows, and a task after ``setup`` on them."""

    def __init__(
        self, task: Task, X: Sequence[object], Y: Sequence[object], rows: list[Array]
    ) -> None:
        self.X = [task.with_kernel_inputs(x, r) for x, r in zip(X, rows, strict=True)]
        self.task = copy.deepcopy(task)
        self.task.setup(self.X, Y)

    def features(self, outputs: Sequence[object]) -> Array:
        """Joint features of these outputs, one row each."""
        pairs = zip(self.X, outputs, strict=True)
        return np.array([dense(self.task.joint_feature(x, y)) for x, y in pairs])


def _check_rows(
    task: Task, X: Sequence[object], Y: Sequence[object], rng: np.random.Generator, where: str
) -> None:
    shapes = [(task.kernel_inputs(x).shape[0], WIDTHS[0]) for x in X]
    first, second = ([rng.normal(size=shape) for shape in shapes] for _ in range(2))
    isometry = np.linalg.qr(rng.normal(size=(WIDTHS[1], WIDTHS[0])))[0].T
    a, b = rng.normal(size=2)
    one, two, none, both, turned = (
        _Inputs(task, X, Y, rows)
        for rows in (
            first,
            second,
            [0.0 * r for r in first],
            [a * r + b * s for r, s in zip(first, second, strict=True)],
            [r @ isometry for r in first],
        )
    )
    for i, (x, r) in enumerate(zip(one.X, first, strict=True)):
        back = task.kernel_inputs(x)
        require(
            back.shape == r.shape and np.array_equal(back, r),
            f"kernel_inputs(with_kernel_inputs(x, rows)) is not rows ({where}, example {i})",
        )
    w = rng.normal(size=(one.features(Y).shape[1],))
    for outputs in (Y, [one.task.inference(x, w) for x in one.X]):
        psi = one.features(outputs)
        mixed = a * psi + b * two.features(outputs) + (1.0 - a - b) * none.features(outputs)
        require_same_vector(
            both.features(outputs).ravel(),
            mixed.ravel(),
            f"joint_feature is not affine in the rows of kernel_inputs ({where})",
        )
        other = turned.features(outputs)
        require_same_vector(
            (other @ other.T).ravel(),
            (psi @ psi.T).ravel(),
            f"inner products of joint features do not depend only on inner products of rows ({where})",
        )
        if task.oracle_kind == "exact":
            _check_scores(one, turned, outputs, rng.normal(size=len(psi)), where)


def _check_scores(
    one: _Inputs, turned: _Inputs, outputs: Sequence[object], factors: Array, where: str
) -> None:
    """Check that for the same combination of joint features, the best outputs have the same scores."""
    w, v = factors @ one.features(outputs), factors @ turned.features(outputs)
    for i, (x, z) in enumerate(zip(one.X, turned.X, strict=True)):
        best = score(one.task, x, one.task.inference(x, w), w)
        found = score(turned.task, z, turned.task.inference(z, v), v)
        require_close(
            found, best, f"inference after an isometry of the rows ({where}, example {i})"
        )

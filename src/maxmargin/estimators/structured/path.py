"""A regularization path of structured models: each fit starts from the state of the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from maxmargin.core.interrupts import outermost
from maxmargin.estimators.base import ENDING
from maxmargin.estimators.example_checks import check_example_weights, check_pairs
from maxmargin.estimators.outcome import tell_path
from maxmargin.estimators.structured.problem import StructuredProblem
from maxmargin.estimators.structured.structured_svm import StructuredSVM
from maxmargin.estimators.watching import Watch
from maxmargin.tasks.base import Task


def structured_path(
    task: Task,
    X: Sequence[Any],
    Y: Sequence[Any],
    Cs: Sequence[float],
    *,
    sample_weight: Any = None,
    **params: Any,
) -> list[StructuredSVM]:
    """Fit a :class:`StructuredSVM` for each C, in little more time than the hardest one takes.

    An output that inference found at one C is a constraint at every C. Outputs are kept, and dual
    variables and weights are scaled. At the next larger C, inference is called when nothing more can be
    learned from the outputs seen so far.

    Parameters
    ----------
    task : Task
        The task: what is predicted, and how.
    X, Y : sequences of equal length
        Inputs and true outputs.
    Cs : sequence of float
        Values of C, in any order.
    sample_weight : array of shape (n_samples,), optional
        Per-sample multipliers of C.
    **params
        Further parameters of :class:`StructuredSVM`.

    Returns
    -------
    list of StructuredSVM
        Fitted estimators, each with its own certificate, in the order of ``Cs``. A callback or
        ``max_seconds`` (of one fit) ends the path: then only finished fits are returned. Fits run from the
        smallest C to the largest.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C. ``error.result`` is the list of the finished estimators and the interrupted one,
        which is also ``error.estimator``. See :func:`maxmargin.return_on_interrupt`.

    Examples
    --------
    >>> import numpy as np
    >>> from maxmargin import structured_path
    >>> from maxmargin.tasks import Chain
    >>> X = [np.eye(2), np.eye(2)[::-1]]
    >>> Y = [np.array([0, 1]), np.array([1, 0])]
    >>> path = structured_path(Chain(n_labels=2), X, Y, Cs=[0.01, 0.1, 1.0])
    >>> [svm.converged_ for svm in path]
    [True, True, True]
    """
    check_pairs(X, Y)
    values = [float(C) for C in np.ravel(Cs)]
    if not values:
        raise ValueError("Cs is empty: give at least one value of C.")
    weight = check_example_weights(sample_weight, len(Y))
    fitted: dict[float, StructuredSVM] = {}
    previous: Any = None
    interrupted = False
    with outermost() as returns, StructuredProblem(StructuredSVM(task, **params), X, Y) as problem:
        for k, C in enumerate(ascending := sorted(set(values)), 1):
            svm = StructuredSVM(task, C, **params)
            try:
                with Watch(svm, f"fit {k} of {len(ascending)}, C={C:g}"):
                    previous = svm._solve(problem, weight, previous)
            except KeyboardInterrupt:  # before the solver began, or after it
                interrupted = True
                break
            fitted[C] = svm
            if svm.stop_reason_ in ENDING:
                break
    path = [fitted[C] for C in values if C in fitted]
    tell_path("structured_path", path, interrupted, returns=returns)
    return path

"""A path of C for structures: every fit starts from the labellings and multipliers of the one before."""

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
    """Fit a :class:`StructuredSVM` for each C, for little more than the price of the hardest one.

    What the argmax said at one C is a constraint at every C: labellings are kept, multipliers and weights
    scaled, and the first call of the argmax at the next larger C is made when nothing is left to learn
    from the labellings seen.

    Parameters
    ----------
    task : Task
        What is predicted and how.
    X, Y : sequences of equal length
        Inputs and labelled outputs.
    Cs : sequence of float
        Values of C, in any order.
    sample_weight : array, optional
        Factors of C by example.
    **params
        Further parameters of :class:`StructuredSVM`.

    Returns
    -------
    list of StructuredSVM
        Fitted estimators, each with its own certificate, in the order of ``Cs``. A callback or
        ``max_seconds`` (of one fit) ends the path: then those that are done, the smallest C first of all.

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C: ``error.result`` is the list of the estimators that are done, the interrupted one
        included; that is also ``error.estimator``. See :func:`maxmargin.return_on_interrupt`.

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
        for C in sorted(set(values)):
            svm = StructuredSVM(task, C, **params)
            try:
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

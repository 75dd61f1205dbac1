"""A regularization path of structured models: each fit starts from the state of the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxmargin.estimators.example_checks import check_example_weights, check_pairs
from maxmargin.estimators.paths import fit_path
from maxmargin.estimators.structured.problem import StructuredProblem
from maxmargin.estimators.structured.structured_svm import StructuredSVM
from maxmargin.tasks.base import Task


def structured_path(
    task: Task,
    X: Sequence[object],
    Y: Sequence[object],
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
    weight = check_example_weights(sample_weight, len(Y))
    with StructuredProblem(StructuredSVM(task, **params), X, Y) as problem:
        return fit_path(
            "structured_path",
            Cs,
            lambda C: StructuredSVM(task, C, **params),
            lambda svm, previous: svm._solve(problem, weight, previous),
        )

"""A regularization path: each fit starts from the one before."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from maxmargin.estimators.linear.linear_svc import LinearSVC
from maxmargin.estimators.paths import fit_path


def svc_path(
    X: Any,
    y: Any = None,
    Cs: Sequence[float] | None = None,
    *,
    sample_weight: Any = None,
    **params: Any,
) -> list[LinearSVC]:
    """Fit a :class:`LinearSVC` for each C, in little more time than the hardest one takes.

    From one C to the next larger one, dual variables and weights are scaled and cutting planes are kept.
    This saves most of the work if the margin violators hardly change.

    Parameters
    ----------
    X : array, sparse matrix or data frame of shape (n_samples, n_features)
        The samples.
    y : array of shape (n_samples,)
        Class labels. Omit it for a data set, which contains its own.
    Cs : sequence of float
        Values of C, in any order.
    sample_weight : array of shape (n_samples,), optional
        Per-sample multipliers of C.
    **params
        Further parameters of :class:`LinearSVC`.

    Returns
    -------
    list of LinearSVC
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
    >>> from sklearn.datasets import load_breast_cancer
    >>> from sklearn.preprocessing import scale
    >>> from maxmargin import svc_path
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> path = svc_path(scale(X), y, Cs=[0.01, 0.1, 1.0])
    >>> [svc.converged_ for svc in path]
    [True, True, True]
    >>> path[0].objective_ < path[2].objective_
    True
    """
    if Cs is None:
        raise TypeError("svc_path needs values of C: svc_path(X, y, Cs=[0.1, 1.0]).")
    return fit_path(
        "svc_path",
        Cs,
        lambda C: LinearSVC(C=C, **params),
        lambda svc, previous: svc._fit(X, y, sample_weight, previous),
    )

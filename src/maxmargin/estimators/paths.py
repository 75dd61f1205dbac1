"""A regularization path: one fit per value of C, ascending, each starting from the one before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from sklearn.base import clone

from maxmargin.core.interrupts import outermost
from maxmargin.estimators.base import ENDING
from maxmargin.estimators.constraints import LIST_OF_C
from maxmargin.estimators.outcome import report_path
from maxmargin.estimators.parameters import check_parameters
from maxmargin.estimators.watching import Watch


class PathOfC:
    """Adds ``path``; ``_fit(X, y, last=..., **data)`` returns what the fit at the next C continues from."""

    _fit: Callable[..., Any]

    def path(
        self, X: Any, y: Any = None, Cs: Sequence[float] | None = None, **data: Any
    ) -> list[Self]:
        """Fit a copy of this estimator for each C, each starting from the solution at the next smaller C.

        Parameters
        ----------
        X : array, sparse matrix, data frame, matrix-free features or data set
            The samples, of shape (n_samples, n_features).
        y : array of shape (n_samples,)
            The target of each sample. Omit it for a data set, which contains its own.
        Cs : sequence of float
            Values of C, in any order.
        **data
            Further arguments of ``fit``, such as ``sample_weight``.

        Returns
        -------
        list of estimators
            Fitted estimators, each with its own certificate, in the order of ``Cs``. A callback or
            ``max_seconds`` (of one fit) ends the path: then only finished fits are returned.
        """
        name = f"{type(self).__name__}.path"
        if Cs is None:
            raise TypeError(f"{name} needs values of C: path(X, y, Cs=[0.1, 1.0]).")
        return fit_path(
            name,
            Cs,
            lambda C: clone(self).set_params(C=C),
            lambda estimator, last: estimator._fit(X, y, last=last, **data),
        )


def fit_path(
    name: str,
    Cs: Sequence[float],
    make: Callable[[float], Any],
    fit: Callable[[Any, Any], Any],
) -> list[Any]:
    """The fitted estimators, in the order of ``Cs``; ``name`` is the public function.

    ``make(C)`` makes an estimator. ``fit(estimator, previous)`` fits it and returns what the next fit starts
    from; ``previous`` is None for the first.
    """
    LIST_OF_C.check("Cs", Cs, name)
    values = [float(C) for C in np.ravel(Cs)]
    fitted: dict[float, Any] = {}
    previous: Any = None
    interrupted = False
    with outermost() as returns:
        for k, C in enumerate(ascending := sorted(set(values)), 1):
            estimator = make(C)
            check_parameters(estimator)
            try:
                with Watch(estimator, f"fit {k} of {len(ascending)}, C={C:g}"):
                    previous = fit(estimator, previous)
            except KeyboardInterrupt:  # before the solver began, or after it
                interrupted = True
                break
            fitted[C] = estimator
            if estimator.stop_reason_ in ENDING:
                break
    path = [fitted[C] for C in values if C in fitted]
    report_path(name, path, interrupted, returns=returns)
    return path

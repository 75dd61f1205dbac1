"""Cutting planes that are reused by the next fit if a data set on disk has only grown.

Losses are never negative, so a cutting plane of the risk over the old rows is one over all rows. It
becomes tight when a cutting plane of the new rows alone, taken at the old solution, is added to it:

    R_old >= p  and  R_new >= q   give   R_old + R_new >= p + q

That costs one pass over the new rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from maxmargin.core.bundle import Bundle
from maxmargin.core.result import SolveResult
from maxmargin.core.vectors import Array
from maxmargin.estimators.warm_start import HOW, fingerprint


@dataclass(frozen=True, slots=True, eq=False)
class StoredBundles:
    """The bundles of a fit, and the problem they belong to."""

    fingerprint: Any
    n_rows: int
    classes: Any
    problem: str
    bundles: list[Any]


def keep_planes(estimator: Any, X: Any, results: list[SolveResult]) -> StoredBundles | None:
    """State for the next fit; None unless the data set can tell whether it has only grown."""
    bundles = [r.dual for r in results]
    whole = all(isinstance(b, Bundle) for b in bundles)
    # an interrupt may have come in the middle of a change
    interrupted = any(r.stop_reason == "interrupted" for r in results)
    problem = _problem(estimator) if hasattr(X, "extends") else None
    if not whole or interrupted or problem is None:
        return None
    return StoredBundles(X.fingerprint, int(X.shape[0]), _classes(estimator), problem, bundles)


def bundles_for(kept: StoredBundles | None, estimator: Any, X: Any) -> list[Bundle] | None:
    """The stored bundles, if their planes are valid for this problem."""
    if kept is None or not hasattr(X, "extends") or not X.extends(kept.fingerprint):
        return None
    grown = X.shape[0] > kept.n_rows
    # with more rows, balanced weights of the old rows change
    balanced = isinstance(getattr(estimator, "class_weight", None), str)
    if (
        _problem(estimator) != kept.problem
        or (grown and balanced)
        or not np.array_equal(kept.classes, _classes(estimator))
    ):
        return None
    return kept.bundles


def grow(
    bundle: Bundle,
    kept: StoredBundles | None,
    risk: Any,
    build: Callable[[list[tuple[int, int]]], Any],
    w: Array,
) -> Bundle | None:
    """Add the contribution of new rows to the planes of the bundle. ``build`` makes the risk of some rows."""
    if kept is None or bundle.dim != risk.dim:
        return None
    if risk.n_examples > kept.n_rows:
        later = build([(kept.n_rows, risk.n_examples)])
        bundle.shift(later.evaluate(w).cut())
    return bundle


def _classes(estimator: Any) -> Any:
    return getattr(estimator, "classes_", ())  # regression has none


def _problem(estimator: Any) -> str | None:
    """A hash of the parameters that define the problem; they may be changed in place."""
    params = estimator.get_params(deep=False)
    return fingerprint({name: value for name, value in params.items() if name not in HOW})

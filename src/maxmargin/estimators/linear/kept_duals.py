"""The dual variables that a fit with ``keep_duals=True`` keeps."""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.result import SolveResult
from maxmargin.core.user_warnings import warn_user
from maxmargin.core.vectors import Array
from maxmargin.duals.free_intercept import FreeCoordinates
from maxmargin.losses import ClassTerms, ScoreLoss
from maxmargin.solvers import CuttingPlane, SampledNewton

#: methods that have one dual variable per sample and score
METHODS = {"coordinate", "block coordinate", "newton", "quasi-newton", "stream"}


def require_duals(risk: Any, norm: SquaredNorm, solver: Any) -> None:
    """Raise ValueError if no method of this fit has dual variables of samples."""
    if isinstance(solver, CuttingPlane | SampledNewton):
        raise ValueError(
            f"keep_duals=True needs dual variables of samples, which {type(solver).__name__} does not have: "
            "leave out solver=, or use DualCoordinate() or Newton()."
        )
    if risk.offers.row_duals is None or not METHODS & risk.methods(norm):
        raise ValueError(
            "keep_duals=True needs dual variables of samples, but only cutting planes, which have none, can "
            "solve this problem. With multi_class='crammer_singer', use penalize_intercept=True and no "
            "nonnegative= or nonpositive=. Pass an array, a sparse matrix, or a data set. A loss of your "
            "own must have dual_terms."
        )


def coefficients(
    loss: ScoreLoss, y: Any, result: SolveResult, C: float, norm: SquaredNorm
) -> Array:
    """The coefficients of the samples in the weights of the best dual point, one row per score; of two
    classes with a score each, the difference."""
    if result.objective == 0.0:  # which no other weights can improve
        columns = loss.n_outputs() or 1
        return np.zeros((1 if columns == 2 else columns, len(y)))
    if not result.duals:
        raise ValueError(
            "keep_duals=True: the solver ended without dual variables of samples. Use "
            "solver=DualCoordinate() or solver=Newton()."
        )
    for duals in result.duals.values():
        if duals.C != C:  # a stage of a smaller C was enough
            duals.rescale(C, norm)
    name, duals = max(result.duals.items(), key=lambda item: item[1].dual_estimate(C))
    proved = duals.dual_value(C)
    if proved < result.lower_bound - 1e-3 * abs(result.objective):
        warn_user(
            f"keep_duals=True: the dual variables of samples prove the lower bound {proved:.6g}; the better "
            f"one, {result.lower_bound:.6g}, is of an earlier step of the fit. Fit longer, or use "
            "solver=Newton()."
        )
    out = np.array(duals.balanced if isinstance(duals, FreeCoordinates) else duals.multipliers)
    y = np.asarray(y[:])
    terms = loss.dual_terms(y)
    if isinstance(terms, ClassTerms):
        out = terms.contribution(np.empty(0), out, None)[0]
    elif loss.label_kind == "sign" and name != "quasi-newton":
        out *= y
    rows = np.atleast_2d(out.T)
    return rows[1:] - rows[:1] if len(rows) == 2 else rows

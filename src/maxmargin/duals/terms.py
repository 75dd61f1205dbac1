"""Contributions of rows' multipliers to w and to the dual, for any loss.

Losses declare the duals of their rows (:meth:`maxmargin.losses.ScoreLoss.dual_terms`); nothing here depends
on the class of a loss.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.core.vectors import Array
from maxmargin.duals.rows import Rows
from maxmargin.losses.base import ScoreLoss
from maxmargin.losses.dual_terms import DualTerms, RowTerms

#: scores at which a row's declared dual is compared with its loss
PROBES: Array = np.array([-7.3, -1.1, -0.37, 0.0, 0.23, 0.81, 1.6, 5.9])


def row_terms(rows: Rows) -> RowTerms:
    """The duals of all rows of ``rows``, whatever their ranges, without offsets."""
    terms = rows.loss.dual_terms(rows.y[:])
    if terms is None:
        raise TypeError(
            f"the loss {type(rows.loss).__name__} declares no dual of a row, which this method needs: "
            "implement dual_terms(y), or use solver=CuttingPlane()."
        )
    return terms


def require_true_terms(loss: ScoreLoss, y: Any) -> None:
    """Raise ValueError if the declared dual does not match the loss: bounds from it would be invalid. The two
    are compared for one row, at small and large scores. (Tests do this for the library's own losses.)"""
    if type(loss).__module__.startswith("maxmargin.losses."):
        return
    y = np.asarray(y[:1])
    terms = loss.dual_terms(y)
    if not isinstance(terms, DualTerms) or not len(y):
        return
    label, margin = float(terms.labels[0]), float(np.ravel(terms.margin)[0])
    for score in label + PROBES if terms.two_sided else PROBES:
        short = abs(label - score) - margin if terms.two_sided else margin - label * score
        value, dual = loss.value(np.array([score]), y, np.ones(1)), terms.loss(short)
        dual *= -terms.skew if score > label else 1.0
        if not abs(value - dual) <= 1e-8 * (1.0 + abs(value) + abs(short) ** 2):
            raise ValueError(
                f"dual_terms of {loss!r} are those of another loss: at the score {score:.6g} of a row with "
                f"the label {label:g} its value is {value:.6g}, but {dual:.6g} by its dual terms. "
                "maxmargin.testing.check_loss runs more checks."
            )


def score_terms(rows: Rows) -> DualTerms:
    """The duals of rows with one score each; offsets are included in the margins."""
    terms = row_terms(rows)
    if not isinstance(terms, DualTerms):
        raise TypeError(
            f"the loss {type(rows.loss).__name__} declares its duals as {type(terms).__name__}; this method "
            "needs DualTerms, of one score per row."
        )
    return terms.shifted(rows.offset)


def contribution(rows: Rows, C: float, alpha: Array) -> tuple[Array, float, float]:
    """The coefficients of the rows in w, and the sums of d(alpha) + q alpha^2 / 2 and of q alpha^2 / 2.

    This covers all rows of ``rows``, whatever their ranges; its feature matrix is not used.
    """
    return row_terms(rows).contribution(C * rows.weight[:], alpha, rows.offset)


def gap_contribution(rows: Rows, C: float, alpha: Array, scores: Array) -> float:
    """The contribution of these rows to the duality gap at these scores (including offsets)."""
    coef, linear, curved = contribution(rows, C, alpha)
    inner = scores if rows.offset is None else scores - rows.offset
    loss = rows.loss.value(scores, rows.y[:], rows.weight[:])
    return C * loss - linear + curved + float(np.vdot(coef, inner))


def into_box(rows: Rows, C: float, alpha: Array) -> Array:
    """The nearest multipliers, approximately, that are feasible for this C."""
    return row_terms(rows).into_box(C * rows.weight[:], alpha)

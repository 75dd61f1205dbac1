"""What multipliers of rows are worth, whatever the loss: their part in w and in the dual."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import row_dual
from maxmargin.core.vectors import Array
from maxmargin.losses import CrammerSinger, EpsilonInsensitive, Hinge, OneClass, SquaredHinge
from maxmargin.risks.rows import Rows


def contribution(rows: Rows, C: float, alpha: Array) -> tuple[Array, float, float]:
    """The coefficients of the rows in w, and the sums of d(alpha) + q alpha^2 / 2 and of q alpha^2 / 2.

    All rows of ``rows`` are meant, whatever their ranges; its design is not looked at.
    """
    loss = rows.loss
    if isinstance(loss, CrammerSinger):
        y, here = rows.y[:], np.arange(len(alpha))
        coef = -alpha
        coef[here, y] = 0.0
        # what left the true class, not c_i less what stayed: a bound must not hang on rounding
        coef[here, y] = -coef.sum(axis=1)
        demands = loss.cost[y]
        if rows.offset is not None:
            demands = demands + rows.offset - rows.offset[here, y][:, None]
        return coef, float(np.vdot(alpha, demands)), 0.0
    kind, labels, common, margins = row_terms(rows)
    margin = common if margins is None else margins
    tube = kind >= row_dual.TUBE
    linear = labels * alpha - margin * np.abs(alpha) if tube else margin * alpha
    curved = 0.0
    if kind & 1:
        used = alpha != 0.0
        curved = float(np.sum(0.25 * alpha[used] ** 2 / (C * rows.weight[:][used])))
    return (alpha.copy() if tube else labels * alpha), float(linear.sum()), curved


def lacking(rows: Rows, C: float, alpha: Array, scores: Array) -> float:
    """What these rows contribute to the duality gap at these scores (offsets included)."""
    coef, linear, curved = contribution(rows, C, alpha)
    inner = scores if rows.offset is None else scores - rows.offset
    loss = rows.loss.value(scores, rows.y[:], rows.weight[:])
    return C * loss - linear + curved + float(np.vdot(coef, inner))


def into_box(rows: Rows, C: float, alpha: Array) -> Array:
    """The nearest multipliers, or nearly so, that are feasible for this C."""
    caps = C * rows.weight[:]
    if isinstance(rows.loss, CrammerSinger):
        alpha = np.maximum(alpha, 0.0)
        alpha[np.arange(len(alpha)), rows.y[:]] = 0.0
        total = alpha.sum(axis=1)
        alpha *= np.minimum(1.0, caps / np.where(total > 0.0, total, 1.0))[:, None]
        return alpha
    kind = row_terms(rows)[0]
    top = np.where(caps > 0.0, np.inf, 0.0) if kind & 1 else caps
    out: Array = np.clip(alpha, -top if kind >= row_dual.TUBE else 0.0, top)
    return out


def row_terms(rows: Rows) -> tuple[int, Array, float, Array | None]:
    """The kind of a loss of one score, labels or targets, and the common margin or one for each row.

    An offset o of the score is a part of what is asked of <w, x>: y (o + <w, x>) >= m asks for the margin
    m - y o, and a target is less by o.
    """
    loss, y, offset = rows.loss, rows.y, rows.offset
    if isinstance(loss, EpsilonInsensitive):
        kind = row_dual.SQUARED_TUBE if loss.smooth else row_dual.TUBE
        targets, widths = loss.targets(y[:])
        return kind, targets if offset is None else targets - offset, loss.epsilon, widths
    if not isinstance(loss, Hinge | SquaredHinge | OneClass):
        raise TypeError(f"coordinate ascent has no form for the loss {type(loss).__name__}.")
    kind = row_dual.SQUARED_HINGE if isinstance(loss, SquaredHinge) else row_dual.HINGE
    labels = np.ones(len(rows.weight)) if isinstance(loss, OneClass) else y[:]
    return kind, labels, loss.margin, None if offset is None else loss.margin - labels * offset

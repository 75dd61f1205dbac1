"""What multipliers of rows are worth, whatever the loss: their part in w and in the dual."""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import row_dual
from maxmargin.core.vectors import Array
from maxmargin.losses import CrammerSinger, EpsilonInsensitive
from maxmargin.risks.binary_coordinates import BinaryCoordinates, TubeCoordinates
from maxmargin.risks.class_coordinates import ClassCoordinates
from maxmargin.risks.rows import Rows

Coordinates = BinaryCoordinates | ClassCoordinates


def coordinates(rows: Rows) -> type[Coordinates]:
    """The compiled epochs for the loss of these rows."""
    if isinstance(rows.loss, CrammerSinger):
        return ClassCoordinates
    return TubeCoordinates if isinstance(rows.loss, EpsilonInsensitive) else BinaryCoordinates


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
    kind, labels, common, margins = _terms(rows)
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
    kind = _terms(rows)[0]
    top = np.where(caps > 0.0, np.inf, 0.0) if kind & 1 else caps
    out: Array = np.clip(alpha, -top if kind >= row_dual.TUBE else 0.0, top)
    return out


def _terms(rows: Rows) -> tuple[int, Array, float, Array | None]:
    kind = coordinates(rows)
    assert issubclass(kind, BinaryCoordinates)
    return kind.terms(rows)

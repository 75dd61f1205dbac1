"""Final bounds: rounding errors of a result's bounds, and bounds in twice the precision.

For multipliers with coefficients g_i = +-alpha_i of the rows in u = X'g,

    D = sum_i d_i(alpha_i) - conjugate(u)

is the value of a cut at its own point. :mod:`maxmargin.core.rounding` bounds its error, and that of F(w).
Usually this is far below any tolerance, and is subtracted from the bound. If it is not (a large C, features
of very different scales, tiny targets), the sums are recomputed in twice the precision, provided that the
rows are in memory and the loss is a sum over them: then gamma(n)^2 replaces gamma(n).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from maxmargin.compiled import precise
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import UNIT, Scale, correction, gamma, negligible_fraction
from maxmargin.core.vectors import Array
from maxmargin.data.design import CSRDesign, DenseDesign
from maxmargin.duals.rows import Rows
from maxmargin.duals.terms import contribution, into_box, require_true_terms, row_terms
from maxmargin.losses.base import ScoreLoss
from maxmargin.losses.dual_terms import DualTerms

#: computes X'g from the coefficients g of the rows
Accumulate = Callable[[Array], Array]
#: keep the multipliers if their best multiple is within this factor
NEARLY = 0.999
#: slopes are also computed at scores that are nearer to zero by this multiple of their largest error
NEARER = 8.0
#: roundings of a score between twice the precision and the sums of a loss, besides those of long sums
OPERATIONS = 2.0


def proved_multiple(
    rows: Rows,
    C: float,
    own: float,
    omega: SquaredNorm,
    alpha: Array,
    lengths: Array,
    negligible: float,
    accumulate: Accumulate | None = None,
) -> float:
    """A lower bound of F(w*) at C, from the best multiple of multipliers that are feasible for the C ``own``.

    ``lengths`` are the norms of the rows. A bound on the rounding error is subtracted unless it is
    negligible. ``accumulate`` computes X'g in another order of summation than ``rows.accumulate``.
    """
    value = DualValue.of(rows, own, alpha, accumulate)
    bend = value.curved + omega.value(omega.primal(value.u))
    best, t = 0.5 * value.linear / bend if bend > 0.0 else np.inf, C / own
    if omega.floor is None and best < NEARLY * t:  # with floors D of a multiple has another form
        t = max(0.0, best)
    if t != 1.0:
        alpha = into_box(rows, C, t * alpha)
        value = DualValue.of(rows, C, alpha, accumulate)
    return _proved(rows, omega, alpha, value, lengths, negligible)


class DualValue(NamedTuple):
    """The dual value of multipliers: their coefficients in u = X'g, u itself, and the parts of D."""

    coef: Array
    u: Array
    linear: float
    curved: float

    @classmethod
    def of(
        cls, rows: Rows, C: float, alpha: Array, accumulate: Accumulate | None = None
    ) -> DualValue:
        """Compute it from the multipliers alone."""
        coef, linear, curved = contribution(rows, C, alpha)
        return cls(coef, (accumulate or rows.accumulate)(coef), linear, curved)


def _proved(
    rows: Rows,
    omega: SquaredNorm,
    alpha: Array,
    dual: DualValue,
    lengths: Array,
    negligible: float,
) -> float:
    """D of feasible multipliers, minus a bound on its rounding error."""
    coef, u, linear, curved = dual
    unit = gamma(len(alpha))
    value = linear - curved - omega.conjugate(u, omega.primal(u)) - _free_correction(omega, u)
    scale, at = scale_of(rows, alpha, coef, curved, lengths), radius(omega, u)
    free = _free_size(rows, omega, coef, scale)
    error = dual_error(rows, omega, u, coef, scale, unit)
    if error <= negligible or not _in_memory(rows):
        return value - correction(error, negligible)
    high, low = _combined(rows, coef)
    exact = (
        row_terms(rows).linear_part(alpha, rows.offset, _dot)
        - curved
        - _conjugate(omega, high, low)
    )
    exact -= _free_correction(omega, high + low)
    # sums of terms of one sign, the final roundings, and those of the caps
    w = omega.primal(u)
    rest = unit * (curved + omega.value(w)) + 8.0 * UNIT * abs(exact)
    if omega.floor is not None:  # the terms of clipped weights have either sign
        rest += gamma(len(u)) * float(np.abs(u - w) @ np.abs(w))
    proved = exact - scale.error(at, unit**2 + rows.relative_error) - unit**2 * free - rest
    return proved if np.isfinite(proved) else value - error


def _free_correction(omega: SquaredNorm, u: Array) -> float:
    """The amount to subtract from the bound for unpenalized coordinates that are not zero in u."""
    return float(np.abs(u[omega.free]).sum()) * omega.free_bound if len(omega.free) else 0.0


def scale_of(rows: Rows, alpha: Array, coef: Array, curved: float, lengths: Array | float) -> Scale:
    """The magnitudes of the terms of the dual value of multipliers; ``lengths`` are the norms of the rows."""
    sizes = np.abs(coef) if coef.ndim == 1 else np.abs(coef).sum(axis=1)
    offset = row_terms(rows).demands(alpha, rows.offset) + curved
    return Scale(offset, float(np.sum(sizes * lengths)), len(alpha))


def radius(omega: SquaredNorm, u: Array) -> float:
    """The norm of the point of a plane, without its free coordinates."""
    return float(np.sqrt(2.0 * omega.value(omega.primal(u))))


def _free_size(rows: Rows, omega: SquaredNorm, coef: Array, scale: Scale) -> float:
    """The magnitude of the terms of u in the free coordinates, times the bound of these. An intercept has the
    same entry in all rows, however long they are."""
    if not len(omega.free):
        return 0.0
    constant = rows.intercept != 0.0 and (omega.free >= rows.dim - rows.n_columns).all()
    size = abs(rows.intercept) * float(np.abs(coef).sum()) if constant else scale.plane
    return omega.free_bound * size


def dual_error(
    rows: Rows, omega: SquaredNorm, u: Array, coef: Array, scale: Scale, unit: float
) -> float:
    """Bound on the error of the dual value of multipliers with coefficients ``coef`` in u, if their sums have
    relative errors of ``unit``."""
    penalized = scale.error(radius(omega, u), unit + rows.relative_error)
    return penalized + unit * _free_size(rows, omega, coef, scale)


def _in_memory(rows: Rows) -> bool:
    return isinstance(rows.design, CSRDesign | DenseDesign)


def _combined(rows: Rows, coef: Array) -> tuple[Array, Array]:
    """X' coef as flat (high, low) pairs, including the constant feature."""
    design, d = rows.design, rows.design.shape[1]
    shape = (rows.dim // rows.n_columns, rows.n_columns)
    high, low = np.zeros(shape), np.zeros(shape)
    ones = np.ones(len(coef))
    for k, column in enumerate(coef.reshape(len(coef), -1).T):
        column = np.ascontiguousarray(column)
        h, l = np.zeros(d), np.zeros(d)
        if isinstance(design, CSRDesign):
            precise.csr_combine(design.indptr, design.indices, design.data, column, h, l)
        elif isinstance(design, DenseDesign):
            precise.dense_combine(design.X, column, h, l)
        high[:d, k], low[:d, k] = h, l
        if rows.intercept != 0.0:
            h, l = precise.dot(ones, column)
            high[d, k], low[d, k] = rows.intercept * h, rows.intercept * l
    return high.ravel(), low.ravel()


def _conjugate(omega: SquaredNorm, high: Array, low: Array) -> float:
    """max of <u, w> - Omega(w) at u = high + low, which is not below the value at any w."""
    w = omega.primal(high)
    clipped = w != high
    low = np.where(clipped, 0.0, low)
    if len(omega.free):
        w, low = omega.penalized(w), omega.penalized(low)
    h, l = precise.dot(w, w)
    square = 0.5 * float(h + l) + float(w @ low) + 0.5 * float(low @ low)
    if omega.floor is not None:
        here = omega.nonnegative
        square += float((high[here] - w[here]) @ w[here])
    return square


def _dot(a: Array, b: Any) -> float:
    h, l = precise.dot(np.ascontiguousarray(a).ravel(), np.ascontiguousarray(b, np.float64).ravel())
    return float(h + l)


def precise_scores(rows: Rows, w: Array) -> tuple[Array, Array, Array]:
    """The scores of all rows in memory as (high, low) pairs, including offsets, and per row the sum of the
    absolute values of its terms."""
    design, n, d = rows.design, rows.design.shape[0], rows.design.shape[1]
    K = rows.n_columns
    high = np.zeros((n, K)) if rows.offset is None else rows.offset.reshape(n, K).copy()
    low, sizes = np.zeros((n, K)), np.zeros((n, K))
    for k, column in enumerate(w.reshape(-1, K).T):
        column = np.ascontiguousarray(column)
        h, l = np.ascontiguousarray(high[:, k]), np.zeros(n)
        size = np.abs(h)
        if rows.intercept != 0.0:
            constant = np.full((n, 1), rows.intercept)
            precise.dense_scores(constant, column[d:], h, l, size)
        if isinstance(design, CSRDesign):
            precise.csr_scores(design.indptr, design.indices, design.data, column[:d], h, l, size)
        elif isinstance(design, DenseDesign):
            precise.dense_scores(design.X, column[:d], h, l, size)
        high[:, k], low[:, k], sizes[:, k] = h, l, size
    shape = (n,) if rows.loss.n_outputs() is None else (n, K)
    return high.reshape(shape), low.reshape(shape), sizes.max(axis=1)


def steepest(loss: ScoreLoss, y: Array, weight: Array) -> Array:
    """The slopes of the loss with respect to the scores where they are large: the weights of the samples, or
    the slopes at scores of zero, where most margins are violated. Squared losses: the weights alone."""
    columns = loss.n_outputs()
    zero: Array = np.zeros(len(weight) if columns is None else (len(weight), columns))
    out: Array = np.maximum(weight, _slopes(loss, y, weight, zero))
    return out


def _slopes(loss: ScoreLoss, y: Array, weight: Array, *points: Array) -> Array:
    """The largest slopes of the loss at these scores; the weights if it is squared."""
    if loss.smooth or not len(weight):
        return weight
    slopes = np.max([np.abs(loss.cut(s, y, weight)[1]) for s in points], axis=0)
    out: Array = slopes if slopes.ndim == 1 else slopes.max(axis=1)
    return out


def loss_error(rows: Rows, value: float, first: float, second: float) -> float:
    """Bound on the error of the loss, computed as ``value``, if the score of sample i has an error of d_i:
    ``first`` is sum_i c_i d_i and ``second`` is sum_i c_i d_i^2, with the slopes c of the loss."""
    loss = rows.loss
    lost = first if loss.n_outputs() is None else 2.0 * first
    terms = loss.dual_terms(rows.y[:1]) if loss.smooth else None
    if loss.smooth and not (isinstance(terms, DualTerms) and terms.capped):
        lost = 2.0 * float(np.sqrt(value * second)) + second  # the slopes are at most 2 sqrt(loss)
    return float(lost) + gamma(rows.n) * value


def proved_risk(rows: Rows, w: Array, value: float, error: float, enough: float) -> float:
    """R(w), computed as ``value`` with at most this ``error``. If that is above ``enough``: an upper bound of
    R(w), for rows in memory from scores in twice the precision. The loss is so, too, if it is a sum over
    rows."""
    enough += negligible_fraction(rows.n) * value
    if error <= enough or not _in_memory(rows):
        return value + correction(error, enough)
    high, low, size = precise_scores(rows, w)
    # without weights of features, scores are the intercepts themselves
    constant = rows.intercept == 1.0 and not w[: -rows.n_columns].any()
    unit = 0.0 if constant else gamma(rows.design.shape[1])
    total = _precise_loss(rows, high, low, unit**2 * size)
    if total is not None:
        return min(total, value + error)
    here = np.concatenate([np.arange(lo, hi) for lo, hi in rows.ranges])
    y, weight = np.asarray(rows.y[:])[here], np.asarray(rows.weight[:])[here]
    s = (high + low)[here]  # rounded once; the loss adds up multiples of them
    sizes = np.abs(s) if s.ndim == 1 else np.abs(s).max(axis=1)
    rounded = (OPERATIONS + np.sqrt(rows.n)) * UNIT
    off = rounded * sizes + unit**2 * size[here]
    # margins that are met up to rounding are violated a little nearer to zero
    near = (1.0 - min(1.0, NEARER * max(rounded, float(off.max(initial=0.0))))) * s
    slopes = _slopes(rows.loss, y, weight, s, near)
    again = float(rows.loss.value(s, y, weight))
    lost = loss_error(rows, again, float(slopes @ off), float(slopes @ (off * off)))
    # a demand such as n (1 - a metric) is rounded even where it is met: once for each sample
    demands = 0.0 if rows.loss.exact_demands else UNIT * float(np.sum(weight))
    return min(value + correction(error, enough), again + lost + demands)


def _precise_loss(rows: Rows, high: Array, low: Array, off: Array) -> float | None:
    """The loss of scores high + low with errors of at most ``off``; None if there is no such form."""
    loss, total = rows.loss, 0.0
    require_true_terms(loss, rows.y)
    for lo, hi in rows.ranges:
        terms = loss.dual_terms(rows.y[lo:hi]) if loss.decomposable else None
        if terms is None:
            return None
        part = terms.precise_loss(rows.weight[lo:hi], high[lo:hi], low[lo:hi], off[lo:hi])
        if part is None:
            return None
        total += part
    total += gamma(rows.n) * abs(total)  # sums of positive terms have a small relative error
    return total if np.isfinite(total) else None

"""Final bounds: the values of a dual point of rows and of the risk, and bounds on their rounding errors.

For multipliers with coefficients g_i = +-alpha_i of the rows in u = X'g,

    D = sum_i d_i(alpha_i) - conjugate(u)

is the value of a cut at its own point. :mod:`maxmargin.core.rounding` bounds its error, and that of F(w).
Usually this is far below any tolerance. If it is not (a large C, features of very different scales, tiny
targets), the risk of a few rows in memory is computed again from scores that are rounded once
(:func:`exact_scores`). If that is not enough, the fit ends with the reason "rounding".
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import UNIT, Scale, correction, gamma, negligible_fraction
from maxmargin.core.vectors import Array
from maxmargin.data.design import CSRDesign, DenseDesign
from maxmargin.duals.rows import Rows
from maxmargin.duals.terms import contribution, into_box, row_terms
from maxmargin.losses.base import ScoreLoss
from maxmargin.losses.dual_terms import DualTerms

#: computes X'g from the coefficients g of the rows
Accumulate = Callable[[Array], Array]
#: keep the multipliers if their best multiple is within this factor
NEARLY = 0.999
#: slopes are also computed at scores that are nearer to zero, and farther from it, by this multiple of their
#: largest error
NEARER = 8.0
#: largest number of terms that are summed without rounding
FEW = 200_000
#: 2^27 + 1 splits a double into two halves
SPLIT = 134217729.0


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
    scale = scale_of(rows, alpha, coef, curved, lengths)
    return value - correction(dual_error(rows, omega, u, coef, scale, unit), negligible)


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


def dual_error(
    rows: Rows, omega: SquaredNorm, u: Array, coef: Array, scale: Scale, unit: float
) -> float:
    """Bound on the error of the dual value of multipliers with coefficients ``coef`` in u, if their sums have
    relative errors of ``unit``."""
    error = scale.error(radius(omega, u), unit + rows.relative_error)
    if not len(omega.free):
        return error
    # an intercept has the same entry in all rows, however long they are
    constant = rows.intercept != 0.0 and (omega.free >= rows.dim - rows.n_columns).all()
    size = abs(rows.intercept) * float(np.abs(coef).sum()) if constant else scale.plane
    return error + unit * omega.free_bound * size


def steepest(loss: ScoreLoss, y: Array, weight: Array) -> Array:
    """The slopes of the loss with respect to the scores where they are large: the weights of the samples, or
    the slopes at scores of zero, where most margins are violated. Squared losses: the weights alone."""
    columns, weight = loss.n_outputs(), loss.heaviest * weight
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
    terms = rows.first_terms if loss.smooth else None
    if loss.smooth and not (isinstance(terms, DualTerms) and terms.capped):
        lost = 2.0 * float(np.sqrt(value * second)) + second  # the slopes are at most 2 sqrt(loss)
    return float(lost) + gamma(rows.n) * value


def proved_risk(rows: Rows, w: Array, value: float, error: float, enough: float) -> float:
    """R(w), computed as ``value`` with at most this ``error``. If that is above ``enough``: an upper bound of
    R(w), from scores that are rounded once if there are few rows in memory."""
    enough += negligible_fraction(rows.n) * value
    if error > enough and few(rows):
        here = rows.indices()
        y, weight = np.asarray(rows.y[:])[here], np.asarray(rows.weight[:])[here]
        s = exact_scores(rows, w)[here]
        sizes = np.abs(s) if s.ndim == 1 else np.linalg.norm(s, axis=1)
        # without weights of features, scores are the intercepts themselves
        constant = rows.intercept == 1.0 and not w[: -rows.n_columns].any()
        unit = 0.0 if constant else (2.0 + np.sqrt(rows.n)) * UNIT
        off = unit * sizes
        # margins that are met up to rounding are violated a little nearer to zero, and tubes on either side
        moved = min(1.0, NEARER * max(unit, float(off.max(initial=0.0))))
        points = s, (1.0 - moved) * s, (1.0 + moved) * s
        slopes = _slopes(rows.loss, y, rows.loss.heaviest * weight, *points)
        again = float(rows.loss.value(s, y, weight))
        lost = loss_error(rows, again, float(slopes @ off), float(slopes @ (off * off)))
        # a demand such as n (1 - a metric) is rounded even where it is met: once for each sample
        if not rows.loss.exact_demands and rows.loss.dual_terms(y[:1]) is None:
            lost += UNIT * float(np.sum(weight))
        return min(value + correction(error, enough), again + lost)
    return value + correction(error, enough)


def few(rows: Rows) -> bool:
    """Whether sums over these rows may take a microsecond per term."""
    return isinstance(rows.design, CSRDesign | DenseDesign) and rows.work(rows.n) <= FEW


def exact_scores(rows: Rows, w: Array) -> Array:
    """The scores of all rows, rounded once (twice with an offset)."""
    design = rows.design
    if isinstance(design, CSRDesign):
        data = design.data.astype(np.float64)
        X = sp.csr_matrix((data, design.indices, design.indptr), design.shape)
    else:
        assert isinstance(design, DenseDesign)
        X = sp.csr_matrix(np.asarray(design.X, dtype=np.float64))
    if rows.intercept != 0.0:
        X = sp.hstack([X, np.full((X.shape[0], 1), rows.intercept)], format="csr")
    W = w.reshape(-1, rows.n_columns)
    scores = np.zeros((X.shape[0], rows.n_columns))
    for k, column in enumerate(W.T):
        b = column[X.indices]
        # Dekker: a product and its rounding error are two doubles
        products, (a1, a2), (b1, b2) = X.data * b, _halves(X.data), _halves(b)
        errors = ((a1 * b1 - products) + a1 * b2 + a2 * b1) + a2 * b2
        terms, more = products.tolist(), errors.tolist()
        for i, (lo, hi) in enumerate(pairwise(X.indptr.tolist())):
            scores[i, k] = math.fsum(terms[lo:hi] + more[lo:hi])
    if rows.loss.n_outputs() is None:
        scores = scores[:, 0]
    return scores if rows.offset is None else scores + rows.offset


def _halves(a: Array) -> tuple[Array, Array]:
    """Two numbers of 26 bits whose sum is ``a`` (Veltkamp)."""
    high = SPLIT * a - (SPLIT * a - a)
    return high, a - high

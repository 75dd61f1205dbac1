"""Lower bounds of F from the tangent plane of the loss at a point, in double precision."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from maxmargin.core.cut import Cut
from maxmargin.core.regularizer import SquaredNorm
from maxmargin.core.rounding import Scale, correction, gamma
from maxmargin.core.vectors import Array
from maxmargin.data.design import row_lengths
from maxmargin.duals.proofs import dual_error
from maxmargin.duals.rows import Rows


class Tangent(NamedTuple):
    """A cut of the risk, and the magnitudes of its terms and of the slopes of the loss."""

    cut: Cut
    sizes: Scale
    slopes: float

    @classmethod
    def at(cls, rows: Rows, W: Array, height: int) -> Tangent:
        """The cut that is tight at W, which has a column per score, from blocks of ``height`` rows."""
        d = rows.design.shape[1]
        if rows.loss.n_outputs() is None:
            W = W[:, 0]
        plane, offset, total, sizes, planes = np.zeros_like(W), 0.0, 0.0, 0.0, 0.0
        for lo, hi in blocks(rows, height):
            s = rows.design.dot(W[:d], lo, hi)
            if rows.intercept != 0.0:
                s += rows.intercept * W[d]
            shift = 0.0 if rows.offset is None else rows.offset[lo:hi]
            s += shift
            own, g = rows.loss.cut(s, rows.y[lo:hi], rows.weight[lo:hi])
            rows.design.accumulate(g, lo, hi, plane[:d])
            if rows.intercept != 0.0:
                plane[d] += rows.intercept * g.sum(axis=0)
            size = np.abs(g)
            offset += own + float(np.sum(g * shift))
            total += abs(own) + float(np.sum(size * (2.0 * np.abs(s) + np.abs(shift))))
            by_row = size.reshape(hi - lo, -1).sum(axis=1)
            sizes += float(by_row.sum())
            known = row_lengths(rows.design, lo, hi)
            lengths = np.hypot(0.0 if known is None else known, rows.intercept)
            planes += float(np.sum(by_row * lengths))
        scale = Scale(total, planes, rows.n)
        error = scale.of_cut() + rows.relative_error * planes
        return cls(Cut(offset, plane.ravel(), error), scale, sizes)

    def value(self, omega: SquaredNorm, C: float) -> float:
        """The dual value of the best multiple of the cut, up to C times."""
        plane, linear = np.asarray(self.cut.plane), self.cut.offset
        if len(omega.free):
            linear -= float(np.abs(plane[omega.free]).sum()) * omega.free_bound
        square = 2.0 * omega.value(plane)
        t = min(C, max(0.0, linear / square)) if square > 0.0 else C
        return t * linear - 0.5 * t * t * square

    def proved(self, rows: Rows, omega: SquaredNorm, C: float, negligible: float) -> float:
        """The same minus a bound on the rounding error."""
        u, slopes, own = C * np.asarray(self.cut.plane), np.array([C * self.slopes]), self.sizes
        sizes = Scale(C * own.offset, C * own.plane, own.terms)
        lost = dual_error(rows, omega, u, slopes, sizes, gamma(own.terms))
        return self.value(omega, C) - correction(lost, negligible)


def blocks(rows: Rows, height: int) -> list[tuple[int, int]]:
    """The rows of the problem in ranges of at most ``height``."""
    return [
        (lo, min(last, lo + height))
        for first, last in rows.ranges
        for lo in range(first, last, height)
    ]

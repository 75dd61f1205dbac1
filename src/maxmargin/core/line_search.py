"""Exact minimisation of F on the line from a to b, by slopes only.

    f(k) = Omega(a + k d) + C R(a + k d),    f'(k) = q k + l + C R'(k),    d = b - a, k >= 0

f' is increasing. Since R' never decreases, f'(k) >= f'(0) + q k: the minimiser lies in [0, -f'(0) /
q]. A round evaluates f' at several k at once (a cluster pays per round, not per k) and narrows the
bracket; as soon as few kinks of R are left inside, they are collected and sorted and the crossing
is found exactly. Risks that are not piecewise linear are narrowed by more rounds, until what is left
to gain inside the bracket, at most its width times the slope at an end, is rounding.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from maxmargin.core.protocols import LineEvaluation
from maxmargin.core.requests import Breakpoints, Request, Slopes
from maxmargin.core.vectors import Array

#: kinks that may be collected and sorted in one place
LIMIT = 20_000
TRIALS = 8
MAX_ROUNDS = 60
MAX_DOUBLINGS = 200
#: trial steps of the first round, as multiples of the previous iteration's step
SPREAD = np.array([0.1, 0.4, 0.7, 0.9, 1.1, 1.5, 2.5, 8.0])


def minimize_on_line(
    a: LineEvaluation,
    b: LineEvaluation,
    quadratic: float,
    linear: float,
    C: float,
    guess: float,
) -> Generator[Request, Any, float]:
    """The step k >= 0 of smallest f; asks for :class:`Slopes` and :class:`Breakpoints`."""
    start: Array = yield Slopes(a, b, np.zeros(1))
    slope_lo = linear + C * float(start[0])
    if slope_lo >= 0.0:
        return 0.0
    lo, slope_hi = 0.0, np.inf
    if quadratic > 0.0:
        hi = -slope_lo / quadratic
    else:  # only coordinates that are not penalised move; R >= 0 ends its descent somewhere
        hi = max(guess, 1.0)
        for _ in range(MAX_DOUBLINGS):
            end: Array = yield Slopes(a, b, np.array([hi]))
            if linear + C * float(end[0]) >= 0.0:
                break
            hi *= 4.0
    trials, gained = guess * SPREAD, 0.0  # f(0) - f(lo) is at least ``gained``
    for _ in range(MAX_ROUNDS):
        kinks = yield Breakpoints(a, b, lo, hi, LIMIT)
        if kinks is not None:
            return _crossing(lo, hi, slope_lo, quadratic, C, *kinks)
        if hi - lo <= 1e-14 * hi:
            return hi
        if (hi - lo) * max(-slope_lo, slope_hi) <= 1e-15 * gained:
            return lo + (hi - lo) * slope_lo / (slope_lo - slope_hi)
        inside = trials[(trials > lo) & (trials < hi)]
        ts = inside if len(inside) else lo + (hi - lo) * np.arange(1, TRIALS + 1) / (TRIALS + 1)
        risk_slopes: Array = yield Slopes(a, b, ts)
        for t, risk_slope in zip(ts, risk_slopes, strict=True):
            slope = quadratic * t + linear + C * float(risk_slope)
            if slope < 0.0:
                gained -= slope * (float(t) - lo)
                lo, slope_lo = float(t), slope
            else:
                hi, slope_hi = float(t), slope
                break
        # next round: around the secant's guess, tighter than an even split when f' is nearly linear
        if np.isfinite(slope_hi):
            root = lo + (hi - lo) * slope_lo / (slope_lo - slope_hi)
            width = (hi - lo) * np.array([0.001, 0.01, 0.05, 0.2])
            trials = np.unique(np.concatenate([root - width, root + width]))
        else:  # hi is a guess that may be far off: by powers
            trials = np.geomspace(lo, hi, TRIALS + 2)[1:-1] if lo > 0.0 else np.empty(0)
    return hi


def _crossing(
    lo: float, hi: float, slope: float, quadratic: float, C: float, ts: Array, jumps: Array
) -> float:
    """Where f' crosses zero, from its value just after ``lo`` and all kinks in (lo, hi)."""
    order = np.argsort(ts, kind="stable")
    at = np.concatenate([ts[order], [hi]])
    before = slope + quadratic * (at - lo) + C * np.concatenate([[0.0], np.cumsum(jumps[order])])
    k = int(np.argmax(before >= 0.0)) if (before >= 0.0).any() else len(at) - 1
    # f' reaches zero on the segment that ends at at[k], or jumps over it at its beginning
    start = at[k - 1] if k else lo
    slope_at_start = before[k] - quadratic * (at[k] - start)
    if slope_at_start >= 0.0:
        return float(start)
    if quadratic <= 0.0:
        return float(at[k])
    return float(min(at[k], start - slope_at_start / quadratic))

"""Exact minimisation of F on the line from a to b, by slopes only.

    f(k) = Omega(a + k d) + C R(a + k d),    f'(k) = q k + l + C R'(k),    d = b - a, k >= 0

f' is increasing. Since R' never decreases, f'(k) >= f'(0) + q k: the minimiser lies in [0, -f'(0) /
q]. A round evaluates f' at several k at once (a cluster pays per round, not per k) and narrows the
bracket; as soon as few kinks of R are left inside, they are collected and sorted and the crossing
is found exactly. Risks that do not tell their kinks are narrowed by more rounds, until what is left
to gain inside the bracket, at most its width times the slope at an end, is a hundredth of the gain
(measured: as many iterations as with an exact search, in half the time). Where one slope costs as much as
a cut (a joint measure sorts all rows for it) they are asked one at a time, and few: see
:func:`_with_few_slopes`.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import numpy as np

from maxmargin.core.contract.evaluation import LineEvaluation
from maxmargin.core.contract.requests import Breakpoints, Request, Slopes
from maxmargin.core.vectors import Array

#: kinks that may be collected in one place
LIMIT = 200_000
TRIALS = 8
MAX_ROUNDS = 60
MAX_DOUBLINGS = 200
#: trial steps of the first round besides zero, as multiples of the previous iteration's step
SPREAD = np.array([0.2, 0.6, 0.85, 1.0, 1.2, 1.7, 5.0])
#: what may be left to gain, relative to the gain; F is evaluated at the step, so no bound depends on it
EFFORT = 1e-2
#: expensive slopes: a step will do where |f'| is this part of |f'(0)|, or in a bracket of this relative width
SLOPE, WIDTH = 0.1, 0.05
#: parts of a bracket whose jumps are summed before one part is sorted
BINS = 256


def minimize_on_line(
    a: LineEvaluation,
    b: LineEvaluation,
    quadratic: float,
    linear: float,
    C: float,
    guess: float,
    *,
    expensive: bool = False,
) -> Generator[Request, Any, float]:
    """The step k >= 0 of smallest f; asks for :class:`Slopes` and :class:`Breakpoints`. Where slopes are
    ``expensive``, a step of about the smallest f by few of them."""
    if expensive:
        step: float = yield from _with_few_slopes(a, b, quadratic, linear, C, guess)
        return step
    ts = np.concatenate([[0.0], guess * SPREAD])
    slopes: Array = quadratic * ts + linear + C * (yield Slopes(a, b, ts))
    slope_lo = float(slopes[0])
    if slope_lo >= 0.0:
        return 0.0
    lo, slope_hi, gained = 0.0, np.inf, 0.0  # f(0) - f(lo) is at least ``gained``
    hi = -slope_lo / quadratic if quadratic > 0.0 else np.inf
    for _ in range(MAX_ROUNDS):
        for t, slope in zip(ts.tolist(), slopes.tolist(), strict=True):
            if t < hi and slope >= 0.0:
                hi, slope_hi = t, slope
                break
            if lo <= t < hi:
                gained -= slope * (t - lo)
                lo, slope_lo = t, slope
        if not np.isfinite(hi):  # only coordinates that are not penalised move
            hi = yield from _end(a, b, linear, C, max(lo, guess, 1.0))
        kinks = yield Breakpoints(a, b, lo, hi, LIMIT)
        if kinks is not None:
            return _crossing(lo, hi, slope_lo, quadratic, C, *kinks)
        if hi - lo <= 1e-14 * hi:
            return hi
        # no kinks told: what is left to gain is at most the width times the slope at an end
        if (hi - lo) * max(-slope_lo, slope_hi) <= EFFORT * gained:
            return lo + (hi - lo) * slope_lo / (slope_lo - slope_hi)
        ts = _trials(lo, hi, slope_lo, slope_hi)
        slopes = quadratic * ts + linear + C * (yield Slopes(a, b, ts))
    return hi


def _with_few_slopes(
    a: LineEvaluation, b: LineEvaluation, quadratic: float, linear: float, C: float, guess: float
) -> Generator[Request, Any, float]:
    """A step where f is nearly level, or next to the kink where it turns. No promise that f is smaller
    there: whoever moves evaluates F first.

    Secants of f', and a cut of the bracket where a secant did not halve it: f' jumps at kinks. Measured with
    F1 and the ROC area on a9a, w8a and covtype (``python -m benchmarks.measures``): 3 to 5 slopes per
    iteration instead of 16 to 59, a third to a quarter of the time; as many iterations, but on F1 up to twice
    as many.
    """
    ts = np.array([0.0, guess])
    slopes: Array = quadratic * ts + linear + C * (yield Slopes(a, b, ts))
    first, t, slope = float(slopes[0]), guess, float(slopes[1])
    if first >= 0.0:
        return 0.0
    lo, slope_lo, slope_hi, width = 0.0, first, np.inf, np.inf
    hi = -first / quadratic if quadratic > 0.0 else np.inf
    for _ in range(MAX_ROUNDS):
        if abs(slope) <= -SLOPE * first:
            return t
        if slope < 0.0:
            lo, slope_lo = t, slope
        elif t < hi:
            hi, slope_hi = t, slope
        turned = np.isfinite(slope_hi)
        root = lo + (hi - lo) * slope_lo / (slope_lo - slope_hi) if turned else lo
        if hi - lo <= WIDTH * hi:
            return root
        if not turned:
            t = min(3.0 * lo, 0.5 * (lo + hi)) if lo > 0.0 else 0.5 * hi
        elif hi - lo <= 0.5 * width:
            t = float(np.clip(root, lo + 0.05 * (hi - lo), hi - 0.05 * (hi - lo)))
        else:  # steps differ by powers
            t = float(np.sqrt(lo * hi)) if lo > 0.0 else 0.3 * hi
        width = hi - lo
        at = np.array([t])
        slope = float((quadratic * at + linear + C * (yield Slopes(a, b, at)))[0])
    return lo if lo > 0.0 else hi


def _end(
    a: LineEvaluation, b: LineEvaluation, linear: float, C: float, hi: float
) -> Generator[Request, Any, float]:
    """A step beyond the minimiser: R >= 0 ends its descent somewhere."""
    for _ in range(MAX_DOUBLINGS):
        hi *= 4.0
        end: Array = yield Slopes(a, b, np.array([hi]))
        if linear + C * float(end[0]) >= 0.0:
            break
    return hi


def _trials(lo: float, hi: float, slope_lo: float, slope_hi: float) -> Array:
    """Around the secant's guess: tighter than an even split when f' is nearly linear."""
    even: Array = lo + (hi - lo) * np.arange(1, TRIALS + 1) / (TRIALS + 1)
    if not np.isfinite(slope_hi):  # hi may be far off: by powers
        return np.geomspace(lo, hi, TRIALS + 2)[1:-1] if lo > 0.0 else even
    root = lo + (hi - lo) * slope_lo / (slope_lo - slope_hi)
    width = (hi - lo) * np.array([0.001, 0.01, 0.05, 0.2])
    near = np.unique(np.concatenate([root - width, root + width]))
    near = near[(near > lo) & (near < hi)]
    return near if len(near) else even


def _crossing(
    lo: float, hi: float, slope: float, quadratic: float, C: float, ts: Array, jumps: Array
) -> float:
    """Where f' crosses zero, from its value just after ``lo`` and all kinks in (lo, hi)."""
    if len(ts) > 4 * BINS:  # only the part of the bracket where f' changes its sign is sorted
        part = np.minimum((ts - lo) * (BINS / (hi - lo)), BINS - 1).astype(np.intp)
        edges = lo + (hi - lo) * np.arange(BINS + 1) / BINS
        rise = np.concatenate([[0.0], np.cumsum(np.bincount(part, jumps, BINS))])
        at_edges = slope + quadratic * (edges - lo) + C * rise
        k = min(BINS, int(np.argmax(at_edges >= 0.0))) - 1 if at_edges[-1] >= 0.0 else BINS - 1
        if k < 0:
            return lo
        inside = part == k
        slope, lo, hi = float(at_edges[k]), float(edges[k]), float(edges[k + 1])
        ts, jumps = ts[inside], jumps[inside]
    return _sorted_crossing(lo, hi, slope, quadratic, C, ts, jumps)


def _sorted_crossing(
    lo: float, hi: float, slope: float, quadratic: float, C: float, ts: Array, jumps: Array
) -> float:
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

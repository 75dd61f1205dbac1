"""Slack rescaling with the argmax of margin rescaling, by a search over the scale of the loss.

An output is a point (Delta, h), h = 1 + <w, Psi(x, y^) - Psi(x, y)>; the largest Delta h is wanted. At the
weights s w, the margin argmax maximizes Delta + s (h - 1); let t be the maximum. It returns a vertex of the
convex hull of all points, and all have h <= U(Delta), the smallest of the lines 1 + (t - Delta) / s. (At
s = 0, t is the largest loss.) The largest d U(d) is a bound. If no output found has this value, the argmax is
called again at the slope of the edge above d that connects two outputs found, unless it was before.

This is the search of Sarawagi and Gupta (2008). It finds the best vertex of the hull, and its bound is the
largest product in the hull. No such search sees the points below an edge (Choi, Meshi and Srebro, 2016), so
the bound can stay above the value. If all losses are multiples of a number, only these are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

#: maximum number of calls of the argmax, and relative gap at which the search ends
CALLS, CLOSE = 20, 1e-9
#: relative difference of equal scales, largest scale, and smallest useful share of the largest loss in steps
SAME, LARGEST, USEFUL = 1e-9, 1e150, 1e-6


class Point(NamedTuple):
    """An output, its loss Delta, and h = 1 + its score minus that of the true output."""

    loss: float
    height: float
    y: Any


def best_product(
    ask: Callable[[float], tuple[Point, float]], truth: Any, step: float
) -> tuple[Point, float]:
    """The output found with the largest product, and an upper bound of the product of all outputs.

    ``ask(s)`` returns a maximizer of Delta + s (h - 1) and an upper bound of this maximum. All losses are
    multiples of ``step``, if it is not 0.
    """
    points, scales, lines = [Point(0.0, 1.0, truth)], [], []
    s, most = step, math.inf
    for _ in range(CALLS):
        point, top = ask(s)
        if not math.isfinite(point.height):
            return point, math.inf
        points.append(point)
        scales.append(s)
        if s == 0.0:
            most = min(most, top)
        elif top < math.inf:
            lines.append((s, top))
        best = max(points, key=lambda p: p.loss * p.height)
        d, upper = _highest(lines, most, step)
        s = _scale(points, d * (1.0 - SAME))
        asked = any(math.isclose(s, other, rel_tol=SAME) for other in scales)
        if upper <= best.loss * best.height * (1.0 + CLOSE) or s > LARGEST or asked:
            break
    return best, upper


def _highest(lines: list[tuple[float, float]], most: float, step: float) -> tuple[float, float]:
    """The loss d in [0, most] with the largest d U(d), and that product. It is concave in d."""
    if not lines:
        return most, 0.0 if most == 0.0 else math.inf
    s, top = np.array(lines).T
    i, j = np.triu_indices(len(s), 1)
    with np.errstate(all="ignore"):
        crossings = (top[j] * s[i] - top[i] * s[j]) / (s[i] - s[j])
        d = np.clip(np.concatenate([0.5 * (s + top), crossings, [most]]), 0.0, most)
        for _ in range(2 if step else 1):
            heights = (1.0 + (top[:, None] - d) / s[:, None]).min(axis=0)
            found = np.nan_to_num(d * heights, nan=-np.inf)
            at, upper = d[np.argmax(found)], max(0.0, float(found.max()))
            d = step * np.unique([np.floor(at / step), np.ceil(at / step)])
            d = d[d <= most * (1.0 + SAME)]  # the multiples around it
    return float(at), upper


def _scale(points: list[Point], d: float) -> float:
    """The scale s at which the two ends of the edge above d have the same Delta + s (h - 1)."""
    pairs = [(p, q) for p in points if p.loss < d for q in points if q.loss >= d]
    if not pairs:
        return 0.0  # the largest loss is needed
    p, q = max(pairs, key=lambda e: np.interp(d, [o.loss for o in e], [o.height for o in e]))
    fall = p.height - q.height
    if fall > 0.0:
        return (q.loss - p.loss) / fall
    return q.loss / q.height  # tangent of equal products


def common_divisor(losses: Iterable[float]) -> float:
    """The largest number of which all ``losses`` are multiples; 0 if it is of no use."""
    parts = [Fraction(float(loss)) for loss in set(losses) if loss]
    below = math.lcm(*(part.denominator for part in parts))
    step = math.gcd(*(int(part * below) for part in parts)) / below
    return step if step >= USEFUL * float(max(parts, default=0)) else 0.0

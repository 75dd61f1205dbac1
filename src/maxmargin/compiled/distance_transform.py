"""Generalized distance transforms: the best position of a part for every position of its parent.

    out[t]  =  max over q of  f[q] - a (q - t)^2 + b (q - t),        a >= 0

With g[q] = f[q] + b q this is the upper envelope of the parabolas g[q] - a (q - t)^2. All have the same
width, so two of them cross once, at

    s(q, r) = ((g[q] - g[r]) / a + r^2 - q^2) / (2 (r - q)),         q < r:  r is larger beyond s.

One sweep from the left computes the envelope (Felzenszwalb and Huttenlocher) in linear time, also if t is
outside the range of q. In two dimensions the cost is a sum over the axes: rows first, then columns. With a =
0 the position is free, and the largest g is the answer.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.jit import entry, leaf

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]


@leaf
def push_line(f: FloatArray, a: float, b: float, shift: int, out: FloatArray, at: IntArray) -> None:
    """The same for a < 0, by brute force: there is no envelope."""
    for j in range(out.size):
        t = j + shift
        out[j] = -np.inf
        for q in range(f.size):
            value = f[q] - a * (q - t) * (q - t) + b * (q - t)
            if value > out[j]:
                out[j] = value
                at[j] = q


@leaf
def transform_line(
    f: FloatArray,
    a: float,
    b: float,
    shift: int,
    out: FloatArray,
    at: IntArray,
    hull: IntArray,
    begin: FloatArray,
) -> None:
    """``out[k]`` and its argmax ``at[k]`` for t = k + shift. ``hull`` and ``begin`` are scratch of the size
    of f plus 1."""
    if a < 0.0:
        push_line(f, a, b, shift, out, at)
        return
    top = 0
    hull[0] = 0
    begin[0] = -np.inf
    for r in range(1, f.size):
        if a > 0.0:
            s = 0.0
            while True:
                q = hull[top]
                gap = f[q] - f[r] + b * (q - r)
                s = (gap / a + (r * r - q * q)) / (2.0 * (r - q))
                if s > begin[top] or top == 0:
                    break
                top -= 1
            if s > begin[top]:
                top += 1
                hull[top] = r
                begin[top] = s
            else:  # only the first one is left, and it is never the largest
                hull[0] = r
        elif f[r] + b * r > f[hull[0]] + b * hull[0]:
            hull[0] = r
    begin[top + 1] = np.inf
    k = 0
    for j in range(out.size):
        t = j + shift
        while begin[k + 1] < t:
            k += 1
        q = hull[k]
        out[j] = f[q] - a * (q - t) * (q - t) + b * (q - t)
        at[j] = q


@entry
def transform(
    f: FloatArray,
    quadratic: FloatArray,
    linear: FloatArray,
    shift: IntArray,
    out: FloatArray,
    at: IntArray,
) -> None:
    """``out[y, x]`` = max over (v, u) of f[v, u] - a_y dy^2 + b_y dy - a_x dx^2 + b_x dx, (dy, dx) = (v,
    u) - (y, x) - shift; ``at[y, x]`` = (v, u). ``quadratic`` = (a_y, a_x), ``linear`` = (b_y, b_x)."""
    height, width = out.shape
    rows = np.empty((f.shape[0], width))
    at_x = np.empty((f.shape[0], width), dtype=np.int64)
    size = max(f.shape[0], f.shape[1])
    hull, begin = np.empty(size + 1, dtype=np.int64), np.empty(size + 1)
    for v in range(f.shape[0]):
        transform_line(f[v], quadratic[1], linear[1], shift[1], rows[v], at_x[v], hull, begin)
    column, best = np.empty(f.shape[0]), np.empty(height)
    at_y = np.empty(height, dtype=np.int64)
    for x in range(width):
        column[:] = rows[:, x]
        transform_line(column, quadratic[0], linear[0], shift[0], best, at_y, hull, begin)
        for y in range(height):
            out[y, x] = best[y]
            at[y, x, 0] = at_y[y]
            at[y, x, 1] = at_x[at_y[y], x]

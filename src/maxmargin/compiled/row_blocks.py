"""Dual coordinate ascent over several blocks of rows at the same time: how their changes are merged.

Each block k starts a round with a private copy v = w and visits some of its rows
(:mod:`maxmargin.compiled.row_dual`). It maximizes the dual of its own rows, with the curvature of each
coordinate j multiplied by the damping s_j:

    sum_i d_i(a_i) - <w, e> - 1/2 sum_j s_j e_j^2,      e the change of w by this block,    v = w + s e

If all blocks do this, D increases by at least as much as these values together, provided that

    sum_j (sum_k e_kj)^2  <=  sum_j s_j sum_k e_kj^2

which s_j = K guarantees, and s_j = 1 is enough where blocks change different coordinates, or change them
independently. So s_j is measured: both sums over the last rounds, their ratio clipped to 1 .. K.

Measured damping may be too small, so the sum of the changes is followed by an exact line search:

    D(a + t da) - D(a)  >=  t (sum_i d_i(a_i + da_i) - d_i(a_i) - <w, e>) - t^2 / 2 |e|^2,     e = sum_k e_k

with equality for the hinge loss. D never decreases.
"""

from __future__ import annotations

from maxmargin.compiled.jit import entry
from maxmargin.compiled.row_dual import (
    ALPHA,
    CAP,
    CAPPED,
    CURVED,
    LABEL,
    TWO_SIDED,
    linear,
    lowest,
)


@entry
def shorten(moved, before, count, t, state, kind, curvature, common, margins, sums):
    """Reduce the changes of these dual variables to ``t`` times what they are. Fills the changes of the sums
    of d(a) + q a^2 / 2 and of q a^2 / 2 that remain."""
    gain, bend = 0.0, 0.0
    for p in range(count):
        i = moved[p]
        a, cap, y, margin = before[p], state[i, CAP], state[i, LABEL], common
        if margins is not None:
            margin = margins[i]
        new = a + t * (state[i, ALPHA] - a)
        if kind & CAPPED:  # rounding must not leave the box
            new = min(cap, max(lowest(cap, curvature), new))
        if not kind & TWO_SIDED:
            new = max(0.0, new)
        gain += linear(new, y, margin, kind) - linear(a, y, margin, kind)
        if kind & CURVED:
            bend += 0.5 * curvature / cap * (new * new - a * a)
        state[i, ALPHA] = new
    sums[0], sums[1] = gain, bend

"""Products and sums of a sparse vector and a dense one.

NumPy takes four passes for ``out[indices] += scale * values``. One compiled loop is several times as fast,
and faster than the same loop over a dense plane if less than about half of the entries are nonzero. Lengths
and indices are not checked here: :mod:`maxmargin.core.vectors` does that.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled.jit import entry_in_order


@entry_in_order
def dot(indices, values, w):
    """Two sums in turn, so that an addition need not wait for the one before."""
    even, odd = 0.0, 0.0
    n = len(indices)
    for k in range(0, n - 1, 2):
        even += values[k] * w[np.uint64(indices[k])]
        odd += values[k + 1] * w[np.uint64(indices[k + 1])]
    if n % 2 == 1:
        even += values[n - 1] * w[np.uint64(indices[n - 1])]
    return even + odd


@entry_in_order
def add_scaled(out, scale, indices, values):
    for k in range(len(indices)):
        out[np.uint64(indices[k])] += scale * values[k]


@entry_in_order
def add_scaled_dense(out, scale, values):
    for k in range(len(values)):
        out[k] += scale * values[k]

"""Ragged arrays of many examples, stored flat, and validation of stored multipliers."""

from __future__ import annotations

import numpy as np

from maxmargin.core.stored_values import floats, integers
from maxmargin.core.vectors import Array, IntArray

#: maximum number of planes per example in a checkpoint; the products between them are stored
MOST_PLANES = 10_000


def offsets(sizes: IntArray) -> IntArray:
    """The start of each of these consecutive ranges, given their sizes."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[: len(sizes)]


def flat_ranges(firsts: IntArray, sizes: IntArray) -> IntArray:
    """The concatenated ranges ``firsts[i] .. firsts[i]+sizes[i]-1``."""
    inside = np.arange(int(sizes.sum())) - np.repeat(offsets(sizes), sizes)
    return np.repeat(firsts, sizes) + inside


def check_multipliers(alpha: Array, counts: IntArray, caps: Array) -> None:
    """Raise ValueError unless the multipliers ``alpha``, ``counts[i]`` of them for example i, are nonnegative
    and sum to ``caps[i]``. A bound computed from stored multipliers is valid only if they are feasible."""
    floats(alpha, "the multipliers", (None,))
    integers(counts, "the numbers of planes", caps.shape, 1)
    if alpha.shape != (int(counts.sum()),):
        raise ValueError("the numbers of planes do not match these examples.")
    sums = np.add.reduceat(alpha, offsets(counts))
    if not ((alpha >= 0.0).all() and np.allclose(sums, caps, rtol=1e-9, atol=0.0)):
        raise ValueError("multipliers are negative, or do not sum to their caps.")

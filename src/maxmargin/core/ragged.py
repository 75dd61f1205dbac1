"""Ragged numbers of many examples in one flat array, and multipliers that are kept so."""

from __future__ import annotations

import numpy as np

from maxmargin.core.stored_values import floats, integers
from maxmargin.core.vectors import Array, IntArray

#: planes of one example that a checkpoint may hold: their products with one another are kept
MOST_PLANES = 10_000


def offsets(sizes: IntArray) -> IntArray:
    """Where each of the ranges of these sizes begins, one after another."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[: len(sizes)]


def flat_ranges(firsts: IntArray, sizes: IntArray) -> IntArray:
    """The numbers of the ranges ``firsts[i] .. firsts[i]+sizes[i]-1``, one after another."""
    inside = np.arange(int(sizes.sum())) - np.repeat(offsets(sizes), sizes)
    return np.repeat(firsts, sizes) + inside


def check_multipliers(alpha: Array, counts: IntArray, caps: Array) -> None:
    """A ValueError unless ``alpha``, example by example ``counts[i]`` of them, are not negative and add up to
    ``caps[i]``: a bound from multipliers that were kept in a file is only as true as they are feasible."""
    floats(alpha, "the multipliers", (None,))
    integers(counts, "the numbers of planes", caps.shape, 1)
    if alpha.shape != (int(counts.sum()),):
        raise ValueError("the numbers of planes are not those of these examples.")
    sums = np.add.reduceat(alpha, offsets(counts))
    if not ((alpha >= 0.0).all() and np.allclose(sums, caps, rtol=1e-9, atol=0.0)):
        raise ValueError("multipliers are negative, or do not add up to their caps.")

"""Ragged arrays of many examples, stored flat."""

from __future__ import annotations

import numpy as np

from maxmargin.core.vectors import IntArray

#: maximum number of planes per example in a checkpoint; the products between them are stored
MOST_PLANES = 10_000


def offsets(sizes: IntArray) -> IntArray:
    """The start of each of these consecutive ranges, given their sizes."""
    return np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[: len(sizes)]


def flat_ranges(firsts: IntArray, sizes: IntArray) -> IntArray:
    """The concatenated ranges ``firsts[i] .. firsts[i]+sizes[i]-1``."""
    inside = np.arange(int(sizes.sum())) - np.repeat(offsets(sizes), sizes)
    return np.repeat(firsts, sizes) + inside

"""Alignment of two sequences by dynamic programming, with affine gaps.

An alignment of a (length n) and b (length m) is a set of pairs (i, j) that increase in both sequences.
Unpaired symbols are gaps. Between two pairs (and at both ends) there are p symbols of a and q symbols of b,
and

    score  =  sum over pairs of S[i, j]  +  gap (number of unpaired symbols)
              + opening (number of gap runs: [p > 0] + [q > 0] for each such interval)

There are three states per cell: after a pair, in a run of symbols of a, in a run of symbols of b. Runs of a
come first, so that alignments and paths correspond one to one. O(nm).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.jit import entry

PAIR, FIRST, SECOND = 0, 1, 2


@entry
def align(
    scores: npt.NDArray[np.float64], gap: float, opening: float, pairs: npt.NDArray[np.int64]
) -> Any:
    """The best alignment under pair scores (n x m); ties prefer pairs.

    Writes it to ``pairs`` (min(n, m) x 2) in *descending* order; returns (score, number of pairs).
    """
    n, m = scores.shape
    best = np.full((n + 1, m + 1, 3), -np.inf)
    origin = np.zeros((n + 1, m + 1, 3), dtype=np.int8)
    best[0, 0, PAIR] = 0.0
    for i in range(n + 1):
        for j in range(m + 1):
            if i > 0 and j > 0:
                at = PAIR
                for state in (FIRST, SECOND):
                    if best[i - 1, j - 1, state] > best[i - 1, j - 1, at]:
                        at = state
                best[i, j, PAIR] = best[i - 1, j - 1, at] + scores[i - 1, j - 1]
                origin[i, j, PAIR] = at
            if i > 0:
                at, value = PAIR, best[i - 1, j, PAIR] + opening
                if best[i - 1, j, FIRST] > value:
                    at, value = FIRST, best[i - 1, j, FIRST]
                best[i, j, FIRST] = value + gap
                origin[i, j, FIRST] = at
            if j > 0:
                at, value = PAIR, best[i, j - 1, PAIR] + opening
                if best[i, j - 1, FIRST] + opening > value:
                    at, value = FIRST, best[i, j - 1, FIRST] + opening
                if best[i, j - 1, SECOND] > value:
                    at, value = SECOND, best[i, j - 1, SECOND]
                best[i, j, SECOND] = value + gap
                origin[i, j, SECOND] = at
    state = PAIR
    for other in (FIRST, SECOND):
        if best[n, m, other] > best[n, m, state]:
            state = other
    score = best[n, m, state]
    i, j, count = n, m, 0
    while i > 0 or j > 0:
        at = origin[i, j, state]
        if state == PAIR:
            i, j = i - 1, j - 1
            pairs[count, 0], pairs[count, 1] = i, j
            count += 1
        elif state == FIRST:
            i -= 1
        else:
            j -= 1
        state = at
    return score, count

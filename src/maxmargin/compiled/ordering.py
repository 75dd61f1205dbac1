"""Sorting of the rows of a query by score.

A nearly sorted permutation from the last call for the same query is fixed by insertion sort; if that takes
too many moves, runs are merged. Rows with equal keys are ordered by a second key.
"""

from __future__ import annotations

from maxmargin.compiled.jit import inlined

#: moves per row after which insertion sort is abandoned for merging
PATIENCE = 4
#: length of runs sorted by insertion before merging
RUN = 8


@inlined
def _insert(keys, order, tie, start, end, patience):
    """Insertion sort of ``start .. end-1``; returns False if ``patience`` was exceeded."""
    for k in range(start + 1, end):
        key, row, p = keys[0, k], order[0, k], k
        while p > start and (
            key < keys[0, p - 1] or (key == keys[0, p - 1] and tie[row] < tie[order[0, p - 1]])
        ):
            keys[0, p] = keys[0, p - 1]
            order[0, p] = order[0, p - 1]
            p -= 1
        keys[0, p] = key
        order[0, p] = row
        patience -= k - p
        if patience < 0:
            return False
    return True


@inlined
def _merge(keys, order, tie, here, start, middle, end):
    """Merge two runs from one half of the arrays into the other."""
    there, a, b = 1 - here, start, middle
    for k in range(start, end):
        first = b >= end
        if not first and a < middle:
            x, y = keys[here, a], keys[here, b]
            first = x < y or (x == y and tie[order[here, a]] <= tie[order[here, b]])
        p = a if first else b
        keys[there, k] = keys[here, p]
        order[there, k] = order[here, p]
        a += first
        b += not first


@inlined
def sort(key, tie, m, order, keys):
    """Sort so that ``key[order[0]]`` ascends, with ties by ``tie[order[0]]``; ``keys[0]`` gets the sorted
    keys.

    ``order[0]`` must hold a permutation of 0 .. m-1; the second rows are scratch."""
    for k in range(m):
        keys[0, k] = key[order[0, k]]
    if _insert(keys, order, tie, 0, m, PATIENCE * m):
        return
    for start in range(0, m, RUN):
        _insert(keys, order, tie, start, min(m, start + RUN), RUN * RUN)
    width, here = RUN, 0
    while width < m:
        for start in range(0, m, 2 * width):
            _merge(keys, order, tie, here, start, min(m, start + width), min(m, start + 2 * width))
        width, here = 2 * width, 1 - here
    if here == 1:
        for k in range(m):
            keys[0, k] = keys[1, k]
            order[0, k] = order[1, k]

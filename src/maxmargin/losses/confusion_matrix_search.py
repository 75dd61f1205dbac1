"""Best confusion matrix for sorted scores, for losses that are concave in the number of one kind of error.

    value(c, b) = n loss(c false negatives, b false positives) - (sum of the c lowest positive scores)
                  + (sum of the b highest negative scores)

Each further false positive adds a lower score. So if the loss is concave in b for every c, the increments of
value(c, .) decrease, and the best b is where they become negative. Bisection finds it for all c at once, in
O(n log n). The same holds for false negatives.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np

from maxmargin.core.vectors import Array, IntArray

Errors = Literal["fn", "fp"]
#: loss(tp, fp, fn, tn), for arrays of confusion matrices
Loss = Callable[[Any, Any, Any, Any], Any]
#: number of counts of the other kind of error at which concavity is checked
TRIED = 17


def best_concave_matrix(loss: Loss, low: Array, high: Array, along: Errors) -> tuple[int, int]:
    """(false negatives, false positives) of the best confusion matrix; ``low`` holds the positive scores in
    ascending order, ``high`` the negative scores in descending order."""
    P, N = len(low), len(high)
    missed = np.concatenate([[0.0], -np.cumsum(low)])
    taken = np.concatenate([[0.0], np.cumsum(high)])
    gains = high if along == "fp" else -low
    other = np.arange((P if along == "fp" else N) + 1)
    delta = _delta(loss, P, N, along)
    best = np.zeros(len(other), dtype=np.int64)
    top = np.full(len(other), len(gains), dtype=np.int64)
    while (best < top).any():
        middle = np.minimum((best + top) // 2, len(gains) - 1)
        rises = delta(other, middle + 1) - delta(other, middle) + gains[middle] > 0.0
        open_ = best < top
        best = np.where(open_ & rises, middle + 1, best)
        top = np.where(open_ & ~rises, middle, top)
    fn, fp = (other, best) if along == "fp" else (best, other)
    first = int(np.argmax(delta(other, best) + missed[fn] + taken[fp]))
    return int(fn[first]), int(fp[first])


def _delta(loss: Loss, P: int, N: int, along: Errors) -> Callable[[IntArray, IntArray], Array]:
    """n times the loss as a function of (count of the other error, count of the searched error)."""

    def of(other: IntArray, count: IntArray) -> Array:
        fn, fp = (other, count) if along == "fp" else (count, other)
        out: Array = (P + N) * np.asarray(loss(P - fn, fp, fn, N - fp), dtype=np.float64)
        return out

    return of


def check_concave(loss: Loss, P: int, N: int, along: Errors, name: str) -> None:
    """Raise ValueError if the loss is not concave as declared, at a few counts of the other kind of error."""
    n_other, n_own = (P, N) if along == "fp" else (N, P)
    delta, own = _delta(loss, P, N, along), np.arange(n_own + 1)
    for other in np.unique(np.linspace(0, n_other, TRIED).astype(np.int64)):
        values = delta(np.full(n_own + 1, other), own)
        if values.shape != own.shape:
            raise ValueError(
                f"loss(tp, fp, fn, tn) of {name} must accept arrays and return as many losses."
            )
        if not np.isfinite(values).all() or (values < 0.0).any():
            raise ValueError(
                f"the loss of {name} must be finite and nonnegative for every confusion matrix."
            )
        bends = values[2:] - 2.0 * values[1:-1] + values[:-2]
        if (bends > 1e-9 * (P + N)).any():
            raise ValueError(
                f"{name} declares a loss that is concave in the number of {along}, but with {other} "
                f"{'fn' if along == 'fp' else 'fp'} it is not. Implement best_matrix(low, high), or "
                "set concave_in = None (for small data)."
            )
    if delta(np.zeros(1, np.int64), np.zeros(1, np.int64))[0] != 0.0:
        raise ValueError(f"{name} must be 0 for a confusion matrix without errors.")

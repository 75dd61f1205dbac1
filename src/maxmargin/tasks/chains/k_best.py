"""k-best labelings and max-marginals of stacked sequences."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.chain_paths import k_best_range, max_marginals_range
from maxmargin.core.vectors import Array
from maxmargin.tasks.chains.examples import Labels, no_labeling, unlabeled, writable

if TYPE_CHECKING:
    from maxmargin.tasks.chains.chain import Chain

#: maximum number of labels in the k-best lists computed at a time
MAX_LABELS = 4_000_000


def k_best_stacked(
    task: Chain, w: Array, X: Any, lengths: npt.ArrayLike, k: int
) -> list[list[tuple[Labels, float]]]:
    """The k best labelings and their scores, best first, for each sequence of a stacked matrix.

    A sequence with fewer than k allowed labelings has a shorter list.
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}.")
    chains = unlabeled(task, X, lengths)
    starts = chains.starts
    out: list[list[tuple[Labels, float]]] = []
    lo, n = 0, len(starts) - 1
    while lo < n:  # as many sequences at a time as MAX_LABELS allows
        hi = max(
            lo + 1, int(np.searchsorted(starts, starts[lo] + MAX_LABELS // k, side="right")) - 1
        )
        labels = np.empty(k * int(starts[hi] - starts[lo]), dtype=chains.truth.dtype)
        scores, counts = np.empty((hi - lo, k)), np.zeros(hi - lo, dtype=np.int64)
        k_best_range(chains, writable(w), lo, hi, k, labels, scores, counts)
        for i in range(lo, hi):
            if counts[i - lo] == 0:
                raise no_labeling(chains, i)
            own = labels[k * (starts[i] - starts[lo]) : k * (starts[i + 1] - starts[lo])]
            rows = own.reshape(k, -1)
            out.append([(rows[j], float(scores[i - lo, j])) for j in range(counts[i - lo])])
        lo = hi
    return out


def max_marginals_stacked(task: Chain, w: Array, X: Any, lengths: npt.ArrayLike) -> Array:
    """For each token and label, the score of the best labeling that has it; -inf if none is allowed."""
    chains = unlabeled(task, X, lengths)
    out = np.empty((int(chains.starts[-1]), task.n_labels))
    stuck = max_marginals_range(chains, writable(w), 0, len(chains.starts) - 1, out)
    if stuck >= 0:
        raise no_labeling(chains, stuck)
    return out

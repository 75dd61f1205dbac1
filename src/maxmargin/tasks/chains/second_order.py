"""Second-order chains as first-order chains over pairs of labels.

With K labels, the states are the pairs (p, q) of the previous and the current label, numbered p K + q; p = K
is the start of the sequence. Transition constraints let only (q, r) follow (p, q), so state sequences and
label sequences correspond one to one. A transition has a score for each three consecutive labels, and a
feature has a weight for each pair of labels. The loss depends on q only. There are K (K + 1) states, and the
time of the Viterbi algorithm is quadratic in their number.
"""

from __future__ import annotations

import numpy as np

from maxmargin.core.vectors import IntArray
from maxmargin.tasks.chains.chain import Chain


def second_order(task: Chain) -> Chain:
    """The chain over pairs of labels, with the costs and transition constraints of ``task``.

    Examples
    --------
    >>> from maxmargin.tasks import Chain
    >>> from maxmargin.tasks.chains.second_order import contract, expand, second_order
    >>> second_order(Chain(n_labels=3)).n_labels
    12
    >>> expand([2, 0, 1], n_labels=3)
    array([11,  6,  1])
    >>> contract([11, 6, 1], n_labels=3)
    array([2, 0, 1])
    """
    K = task.n_labels
    before, label = np.divmod(np.arange(K * (K + 1)), K)
    legal = np.concatenate([task.allowed, task.allowed_start[None, :]])  # [before, label]
    return Chain(
        n_labels=K * (K + 1),
        n_features=task.n_features,
        cost=task.cost[np.ix_(label, label)],
        allowed=(label[:, None] == before) & legal[before, label],
        allowed_start=(before == K) & task.allowed_start[label],
        allowed_stop=task.allowed_stop[label],
    )


def expand(labels: object, n_labels: int) -> IntArray:
    """The state sequence of a labeling."""
    codes = np.asarray(labels, dtype=np.int64)
    before = np.concatenate([[n_labels], codes[:-1]]) if len(codes) else codes
    return before * n_labels + codes


def contract(states: object, n_labels: int) -> IntArray:
    """The labels of a state sequence."""
    return np.asarray(states, dtype=np.int64) % n_labels

"""Second-order chains as first-order ones: a state is a label together with the one before it.

With K labels the states are (p, q), numbered p K + q, where p = K is the border before the first token.
Masks let (p, q) be followed by (q, r) only, so state sequences and label sequences are one to one, a
move has a score for each three labels in a row, and features are seen jointly with two labels.
The loss looks at q only. The price: K (K + 1) states, and Viterbi takes their square.
"""

from __future__ import annotations

import numpy as np

from maxmargin.core.vectors import IntArray
from maxmargin.tasks.chains.chain import Chain


def second_order(task: Chain) -> Chain:
    """The chain over states, with the costs and masks of a first-order one.

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
    """States of a labelling."""
    codes = np.asarray(labels, dtype=np.int64)
    before = np.concatenate([[n_labels], codes[:-1]]) if len(codes) else codes
    return before * n_labels + codes


def contract(states: object, n_labels: int) -> IntArray:
    """Labels of a state sequence."""
    return np.asarray(states, dtype=np.int64) % n_labels

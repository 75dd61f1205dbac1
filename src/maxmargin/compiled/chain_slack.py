"""Slack rescaling on chains: the best labeling for every value of an integer loss.

The argmax of Delta (1 + <w, Psi(z) - Psi(y)>) does not decompose over tokens. But for a fixed value L of the
loss it is the best score, which does decompose if losses are small integers:

    best[t, L, s]  =  the best score of a prefix of loss L that ends in s
    best[t, L + delta_t(s), s]  =  node[t, s] + max_r ( best[t-1, L, r] + A[r, s] )

where delta_t(s) is the loss of label s at token t. At the end, take the L with the largest
L (1 + best_L - score(y)). The true labeling has value 0. O(T L_max K^2), L_max = sum_t max_s delta_t(s).
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from maxmargin.compiled.chain import FloatArray, IntArray, Labels
from maxmargin.compiled.jit import entry, leaf


@leaf
def best_moves(before: FloatArray, moves: FloatArray, best: FloatArray, origin: Any) -> None:
    """``best[s] = max_r before[r] + moves[r, s]`` and its argmax; ties: the smallest r."""
    K = best.size
    for s in range(K):
        best[s] = before[0] + moves[0, s]
        origin[s] = 0
    for r in range(1, K):
        b = before[r]
        for s in range(K):
            value = b + moves[r, s]
            if value > best[s]:
                best[s] = value
                origin[s] = r


@entry
def slack_path(
    nodes: FloatArray,
    delta: IntArray,
    tail: FloatArray,
    own: float,
    origin: npt.NDArray[np.int32],
    path: Labels,
) -> Any:
    """Write the labeling of largest L (1 + score - own) to ``path``.

    ``nodes`` (T x K) holds token scores and ``delta`` their losses, T > 0; ``tail`` holds transitions, start
    and stop, with -inf if forbidden; ``own`` is the score of the true labeling; ``origin``
    (T x (L_max + 1) x K) is scratch. Returns the loss, or 0 if no labeling has a positive value; ``path`` is
    then not written.
    """
    T, K = nodes.shape
    L_max = origin.shape[1] - 1
    moves = tail[: K * K].reshape(K, K)
    before = np.full((L_max + 1, K), -np.inf)
    now = np.full((L_max + 1, K), -np.inf)
    best = np.empty(K)
    from_ = np.empty(K, dtype=np.int32)
    for s in range(K):
        before[delta[0, s], s] = nodes[0, s] + tail[K * K + s]
    reach = delta[0].max()
    for t in range(1, T):
        top = reach + delta[t].max()
        for L in range(top + 1):
            for s in range(K):
                now[L, s] = -np.inf
        for L in range(reach + 1):
            best_moves(before[L], moves, best, from_)
            for s in range(K):
                to = L + delta[t, s]
                now[to, s] = best[s] + nodes[t, s]
                origin[t, to, s] = from_[s]
        reach = top
        before, now = now, before
    worst, loss, label = 0.0, 0, -1
    for L in range(1, reach + 1):
        for s in range(K):
            value = L * (1.0 + before[L, s] + tail[K * K + K + s] - own)
            if value > worst:
                worst, loss, label = value, L, s
    if loss == 0:
        return 0
    L = loss
    for t in range(T - 1, -1, -1):
        path[t] = label
        if t > 0:
            label, L = origin[t, L, label], L - delta[t, label]
    return loss

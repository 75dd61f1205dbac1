"""Crammer-Singer hinge with a cost matrix: L(S) = sum_i c_i max_k (cost[y_i, k] + S_ik - S_iy_i)."""

from __future__ import annotations

import numpy as np
from numba import njit

from maxmargin.compiled.envelope import add_kinks, add_slopes


@njit(nogil=True, cache=True)
def _violator(scores, cost, i, truth):
    """The class of largest cost plus score; the true class on ties. (Row views would cost 100 ns.)"""
    best, value = truth, scores[i, truth]
    for k in range(scores.shape[1]):
        v = cost[truth, k] + scores[i, k]
        better = v > value
        best = k if better else best
        value = v if better else value
    return best


@njit(nogil=True, cache=True)
def value(scores, y, weight, cost):
    total = 0.0
    for i in range(scores.shape[0]):
        k = _violator(scores, cost, i, y[i])
        total += weight[i] * (cost[y[i], k] + scores[i, k] - scores[i, y[i]])
    return total


@njit(nogil=True, cache=True)
def cut(scores, y, weight, cost, gradient):
    """Fill the gradient and return the offset of the cut that is tight at the scores."""
    offset = 0.0
    for i in range(scores.shape[0]):
        for k in range(scores.shape[1]):
            gradient[i, k] = 0.0
        k = _violator(scores, cost, i, y[i])
        if k != y[i]:
            gradient[i, k] = weight[i]
            gradient[i, y[i]] = -weight[i]
            offset += weight[i] * cost[y[i], k]
    return offset


@njit(nogil=True, cache=True)
def _lines(s, r, cost, i, truth, a, b):
    start = s[i, truth]
    drift = r[i, truth] - start
    for k in range(s.shape[1]):
        a[k] = cost[truth, k] + s[i, k] - start
        b[k] = (r[i, k] - s[i, k]) - drift


@njit(nogil=True, cache=True)
def slopes(s, r, y, weight, cost, ts, out):
    """Add the right derivatives on the line from scores s to scores r."""
    n_classes = s.shape[1]
    a, b = np.empty(n_classes), np.empty(n_classes)
    for i in range(s.shape[0]):
        if weight[i] != 0.0:
            _lines(s, r, cost, i, y[i], a, b)
            add_slopes(a, b, n_classes, weight[i], ts, out)


@njit(nogil=True, cache=True)
def kinks(s, r, y, weight, cost, lo, hi, ts, jumps):
    """Kinks in (lo, hi); returns their number, or -1 if there is no room."""
    n_classes = s.shape[1]
    a, b = np.empty(n_classes), np.empty(n_classes)
    count = 0
    for i in range(s.shape[0]):
        if weight[i] != 0.0:
            _lines(s, r, cost, i, y[i], a, b)
            count = add_kinks(a, b, n_classes, weight[i], lo, hi, ts, jumps, count)
            if count < 0:
                return -1
    return count

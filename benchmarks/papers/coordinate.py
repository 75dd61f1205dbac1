"""Ramanan's batch algorithm with one constraint per example, in the smallest form that can be counted.

A reference for claims about passes: the order of visits, and the approximate upper bound UB'; and with
several constraints per example, for single steps and steps of pairs. The library has its own, faster solvers.
"""

from __future__ import annotations

from benchmarks.common import cpu

# ruff: isort: split
from collections.abc import Iterator
from typing import Any, Literal

import numba
import numpy as np

Order = Literal["random", "as stored", "sorted by class"]


@numba.njit(cache=False)
def _epoch(data, indices, indptr, y, norms, alpha, w, C, order):  # type: ignore[no-untyped-def]
    """One pass of single steps; the sum of max(0, gradient) as each example was visited."""
    seen = 0.0
    for i in order:
        score = 0.0
        for k in range(indptr[i], indptr[i + 1]):
            score += data[k] * w[indices[k]]
        g = 1.0 - y[i] * score
        seen += max(0.0, g)
        if norms[i] == 0.0:  # an empty row has loss 1 whatever w is
            alpha[i] = C
        else:
            new = min(max(alpha[i] + g / norms[i], 0.0), C)
            step = (new - alpha[i]) * y[i]
            alpha[i] = new
            if step != 0.0:
                for k in range(indptr[i], indptr[i + 1]):
                    w[indices[k]] += step * data[k]
    return seen


def passes(
    X: Any, y: Any, C: float, tol: float, *, order: Order, guess: bool, most: int = 300
) -> dict[str, Any]:
    """Passes over the rows to a relative gap: epochs, and those that compute the true upper bound.

    ``guess``: the true bound is computed only when UB' meets the tolerance; otherwise after every epoch.
    """
    y = np.sign(np.asarray(y, dtype=float))
    norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    alpha, w = np.zeros(len(y)), np.zeros(X.shape[1])
    rng, stored = np.random.default_rng(0), np.arange(len(y))
    if order == "sorted by class":
        stored = np.argsort(y, kind="stable")
    epochs = checks = 0
    upper = gap = np.inf
    while epochs < most:
        epochs += 1
        visits = rng.permutation(len(y)) if order == "random" else stored
        seen = _epoch(X.data, X.indices, X.indptr, y, norms, alpha, w, C, visits)
        half = 0.5 * float(w @ w)
        lower, near = alpha.sum() - half, half + C * seen
        if not guess or near - lower <= tol * near:
            checks += 1
            upper = half + C * float(np.maximum(0.0, 1.0 - y * (X @ w)).sum())
            gap = (upper - lower) / upper
            if gap <= tol:
                break
    return {"epochs": epochs, "checks": checks, "passes": epochs + checks, "gap": gap, "F": upper}


def timed(X: Any, y: Any, C: float, most: int) -> Iterator[tuple[float, Any]]:
    """CPU seconds of so many epochs in random order, without any bound, and the weights."""
    y = np.sign(np.asarray(y, dtype=float))
    norms = np.asarray(X.multiply(X).sum(axis=1)).ravel()
    alpha, w = np.zeros(len(y)), np.zeros(X.shape[1])
    rng, seconds = np.random.default_rng(0), 0.0
    for _ in range(most):
        began = cpu()
        _epoch(X.data, X.indices, X.indptr, y, norms, alpha, w, C, rng.permutation(len(y)))
        seconds += cpu() - began
        yield seconds, w


@numba.njit(cache=False)
def _classes_epoch(X, y, W, alpha, total, C, pairs, order):  # type: ignore[no-untyped-def]
    """One pass over all wrong classes of all examples: single steps, and pairs if no slack is left."""
    n_classes = W.shape[0]
    for i in order:
        norm = 0.0
        for k in range(X.shape[1]):
            norm += X[i, k] * X[i, k]
        scores = W @ X[i]
        for j in range(n_classes):
            if j == y[i] or norm == 0.0:
                continue
            g = 1.0 - scores[y[i]] + scores[j]
            if pairs and g > 0.0 and C - total[i] < 1e-9 * C:
                other = np.random.randint(0, n_classes)  # noqa: NPY002, numba has no other
                if other in (j, y[i]):
                    continue
                gain = g - (1.0 - scores[y[i]] + scores[other])
                # the difference of two constraints moves the weights of two wrong classes only
                step = min(max(gain / (2.0 * norm), -alpha[i, j]), alpha[i, other])
                alpha[i, j] += step
                alpha[i, other] -= step
                W[j] -= step * X[i]
                W[other] += step * X[i]
                scores[j] -= step * norm
                scores[other] += step * norm
            else:
                step = min(max(g / (2.0 * norm), -alpha[i, j]), C - total[i])
                alpha[i, j] += step
                total[i] += step
                W[y[i]] += step * X[i]
                W[j] -= step * X[i]
                scores[y[i]] += step * norm
                scores[j] -= step * norm


def classes(
    X: Any, y: Any, n_classes: int, C: float, pairs: bool, marks: tuple[int, ...]
) -> list[dict[str, float]]:
    """F and the dual's value after some epochs; a constraint per wrong class, each with margin 1."""
    alpha, total = np.zeros((len(y), n_classes)), np.zeros(len(y))
    W, rng, out = np.zeros((n_classes, X.shape[1])), np.random.default_rng(0), []
    for epoch in range(1, marks[-1] + 1):
        _classes_epoch(X, y, W, alpha, total, C, pairs, rng.permutation(len(y)))
        if epoch in marks:
            scores = X @ W.T
            scores += 1.0
            scores[np.arange(len(y)), y] -= 1.0
            loss = scores.max(axis=1) - scores[np.arange(len(y)), y]
            half = 0.5 * float((W * W).sum())
            out.append({"F": half + C * float(loss.sum()), "dual": float(total.sum()) - half})
    return out

"""Ramanan's batch algorithm with one constraint per example, in the smallest form that can be counted.

A reference for two claims about passes: the order of visits, and the approximate upper bound UB'. The library
has its own, faster solvers.
"""

from __future__ import annotations

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

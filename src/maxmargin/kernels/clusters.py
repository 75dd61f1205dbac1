"""Split rows into clusters of bounded size by a few rounds of k-means on a sample.

Values of a local kernel are small between different clusters. The solutions of one problem per cluster,
joined, are therefore a good starting point for the whole problem (divide and conquer; Hsieh, Si and Dhillon).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, IntArray

#: sampled rows per center, rounds of Lloyd's algorithm, rows assigned at a time
SAMPLE, ROUNDS, PIECE = 40, 6, 8192
#: maximum number of clusters of one split
MOST = 256
#: the limit divided by the average cluster size aimed at: sizes vary
SLACK = 1.5


def clusters(X: Any, rows: IntArray, largest: int, rng: np.random.Generator) -> list[IntArray]:
    """Split ``rows`` into clusters of at most ``largest`` rows, each in ascending order."""
    if len(rows) <= largest:
        return [rows]
    k = min(MOST, len(rows), int(np.ceil(SLACK * len(rows) / largest)))
    centers = _centers(X, rows, k, rng)
    nearest = np.concatenate(
        [_nearest(X[rows[lo : lo + PIECE]], centers) for lo in range(0, len(rows), PIECE)]
    )
    sizes = np.bincount(nearest, minlength=len(centers))
    if sizes.max() > 0.9 * len(rows):  # nearly all rows are identical
        n_parts = int(np.ceil(len(rows) / largest))
        return [np.sort(part) for part in np.array_split(rng.permutation(rows), n_parts)]
    order = np.argsort(nearest, kind="stable")
    parts = np.split(rows[order], np.cumsum(sizes)[:-1])
    return [small for part in parts if len(part) for small in clusters(X, part, largest, rng)]


def _centers(X: Any, rows: IntArray, k: int, rng: np.random.Generator) -> Array:
    chosen = np.sort(rng.choice(len(rows), min(len(rows), SAMPLE * k), replace=False))
    sample = X[rows[chosen]]
    sample = np.asarray(
        sample.toarray() if hasattr(sample, "toarray") else sample, dtype=np.float32
    )
    centers = sample[rng.choice(len(sample), k, replace=False)]
    for _ in range(ROUNDS):
        nearest = _nearest(sample, centers)
        order = np.argsort(nearest, kind="stable")
        _, starts = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(sample[order], starts, axis=0)
        centers = sums / np.diff(np.append(starts, len(sample)))[:, None].astype(np.float32)
    return centers


def _nearest(X: Any, centers: Any) -> IntArray:
    near: IntArray = np.asarray(
        X @ centers.T - 0.5 * np.einsum("ij,ij->i", centers, centers)
    ).argmax(axis=1)
    return near

"""Rows parted into clusters of neighbours, none larger than asked for: k-means on a sample, a few rounds.

A local kernel hardly sees across such clusters, so problems solved on each of them, joined, are a good start
for the whole (the divide-and-conquer idea of Hsieh, Si and Dhillon).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from maxmargin.core.vectors import Array, IntArray

#: sampled rows for each centre, rounds of Lloyd's iteration, rows assigned at a time
SAMPLE, ROUNDS, PIECE = 40, 6, 8192
#: clusters that one round of splitting makes at most
MOST = 256
#: how much smaller than allowed clusters are meant to be on average, as their sizes differ
SLACK = 1.5


def clusters(X: Any, rows: IntArray, largest: int, rng: np.random.Generator) -> list[IntArray]:
    """The rows in clusters, each at most ``largest`` of them, ascending inside."""
    if len(rows) <= largest:
        return [rows]
    k = min(MOST, len(rows), int(np.ceil(SLACK * len(rows) / largest)))
    centres = _centres(X, rows, k, rng)
    nearest = np.concatenate(
        [_nearest(X[rows[lo : lo + PIECE]], centres) for lo in range(0, len(rows), PIECE)]
    )
    sizes = np.bincount(nearest, minlength=len(centres))
    if sizes.max() > 0.9 * len(rows):  # rows that are all alike
        n_parts = int(np.ceil(len(rows) / largest))
        return [np.sort(part) for part in np.array_split(rng.permutation(rows), n_parts)]
    order = np.argsort(nearest, kind="stable")
    parts = np.split(rows[order], np.cumsum(sizes)[:-1])
    return [small for part in parts if len(part) for small in clusters(X, part, largest, rng)]


def _centres(X: Any, rows: IntArray, k: int, rng: np.random.Generator) -> Array:
    chosen = np.sort(rng.choice(len(rows), min(len(rows), SAMPLE * k), replace=False))
    sample = X[rows[chosen]]
    sample = np.asarray(
        sample.toarray() if hasattr(sample, "toarray") else sample, dtype=np.float32
    )
    centres = sample[rng.choice(len(sample), k, replace=False)]
    for _ in range(ROUNDS):
        nearest = _nearest(sample, centres)
        order = np.argsort(nearest, kind="stable")
        _, starts = np.unique(nearest[order], return_index=True)
        sums = np.add.reduceat(sample[order], starts, axis=0)
        centres = sums / np.diff(np.append(starts, len(sample)))[:, None].astype(np.float32)
    return centres


def _nearest(X: Any, centres: Any) -> IntArray:
    near: IntArray = np.asarray(
        X @ centres.T - 0.5 * np.einsum("ij,ij->i", centres, centres)
    ).argmax(axis=1)
    return near

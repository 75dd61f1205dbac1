"""Squared distances by differences, without cancellation for rows far from the origin."""

from __future__ import annotations

from maxmargin.compiled.jit import entry_products


@entry_products
def squared_distances(A, B, out):  # type: ignore[no-untyped-def]
    """|a_i - b_j|^2 for all rows of two matrices."""
    for i in range(A.shape[0]):
        for j in range(B.shape[0]):
            total = 0.0
            for k in range(A.shape[1]):
                difference = A[i, k] - B[j, k]
                total += difference * difference
            out[i, j] = total

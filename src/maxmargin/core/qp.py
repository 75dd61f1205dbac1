"""The reduced problem of a bundle, kept between solves so that each solve is warm-started.

See :mod:`maxmargin.compiled.qp` for the mathematics; this module holds the outer loop and the memory.
"""

from __future__ import annotations

import numpy as np

from maxmargin.compiled import qp
from maxmargin.core.vectors import Array, IntArray

MAX_STEPS = 10_000


class SimplexQP:
    """min 1/2 beta' G beta - c' beta over a product of simplices, one per block.

    The first ``n_blocks`` variables are the zero planes of the blocks. Variables are appended one
    at a time with their row of G and removed by a mask. The factorization stays valid after appends, and
    after removals unless a free variable is removed.
    """

    def __init__(self, n_blocks: int) -> None:
        self.n_blocks = n_blocks
        self.size = n_blocks
        capacity = n_blocks + 16
        self._G: Array = np.zeros((capacity, capacity))
        self._block: IntArray = np.zeros(capacity, dtype=np.int64)
        self._block[:n_blocks] = np.arange(n_blocks)
        self._beta: Array = np.zeros(capacity)
        self._beta[:n_blocks] = 1.0
        self._allocate_factor(capacity)

    def _allocate_factor(self, capacity: int) -> None:
        self._free: IntArray = np.zeros(capacity + 1, dtype=np.int64)
        self._L: Array = np.zeros((capacity + 1, capacity + 1))
        self._Y: Array = np.zeros((capacity + 1, self.n_blocks + 1))
        self._n_free = 0
        self._shift = 0.0

    @property
    def beta(self) -> Array:
        """The current feasible point (a view)."""
        return self._beta[: self.size]

    @property
    def gram(self) -> Array:
        """The Gram matrix (a view)."""
        return self._G[: self.size, : self.size]

    @property
    def block(self) -> IntArray:
        """The block of each variable (a view)."""
        return self._block[: self.size]

    def append(self, row: Array, block: int) -> None:
        """Add a variable at zero; ``row`` holds its products with all variables, with itself last."""
        if self.size == len(self._beta):
            self._grow()
        m = self.size
        self._G[m, : m + 1] = row
        self._G[: m + 1, m] = row
        self._block[m] = block
        self._beta[m] = 0.0
        self.size = m + 1

    def _grow(self) -> None:
        m, capacity = self.size, 2 * self.size
        G, L, Y = self._G, self._L, self._Y
        block, beta, free = self._block, self._beta, self._free
        n_free, shift = self._n_free, self._shift
        self._G = np.zeros((capacity, capacity))
        self._G[:m, :m] = G[:m, :m]
        self._block = np.zeros(capacity, dtype=np.int64)
        self._block[:m] = block[:m]
        self._beta = np.zeros(capacity)
        self._beta[:m] = beta[:m]
        self._allocate_factor(capacity)
        self._free[:n_free] = free[:n_free]
        self._L[:n_free, :n_free] = L[:n_free, :n_free]
        self._Y[:n_free] = Y[:n_free]
        self._n_free, self._shift = n_free, shift

    def keep(self, mask: np.ndarray) -> None:
        """Remove the variables outside ``mask``; their beta must be zero."""
        kept = np.flatnonzero(mask)
        number = np.full(self.size, -1, dtype=np.int64)
        number[kept] = np.arange(len(kept))
        m = len(kept)
        self._G[:m, :m] = self._G[np.ix_(kept, kept)]
        self._block[:m] = self._block[kept]
        self._beta[:m] = self._beta[kept]
        free = number[self._free[: self._n_free]]
        if (free < 0).any():
            self._n_free = 0
        else:
            self._free[: self._n_free] = free
        self.size = m

    def shift_gram(self, change: Array) -> None:
        """Add a matrix to the Gram matrix of all planes except the zero planes."""
        self._G[self.n_blocks : self.size, self.n_blocks : self.size] += change
        self._n_free = 0

    def replace_gram(self, gram: Array) -> None:
        """Replace the Gram matrix of all planes except the zero planes."""
        self._G[self.n_blocks : self.size, self.n_blocks : self.size] = gram
        self._n_free = 0

    def move(self, beta: Array) -> None:
        """Set another feasible point (after planes were merged)."""
        self._beta[: self.size] = beta
        self._n_free = 0

    def solve(self, c: Array, tol: float) -> float:
        """Minimize from the current point to a Frank-Wolfe gap of ``tol``; return the gap."""
        m, p = self.size, self.n_blocks
        beta = self._beta
        rebuilt = False
        if self._n_free == 0:
            rebuilt = True
            self._rebuild(c)
        else:
            qp.refresh_offsets(c, p, self._free, self._n_free, self._L, self._Y)
        best, best_gap, stale, steps = beta[:m].copy(), np.inf, 0, 0
        while True:
            self._n_free, used, gap, entering, violation, spread = qp.descend(
                self._G, c, self._block, p, m, beta, self._free, self._n_free, self._L, self._Y
            )
            steps += used
            if not np.isfinite(gap):  # overflow: the best point so far is still feasible
                break
            stale = 0 if gap < 0.999 * best_gap else stale + 1
            if gap < best_gap:
                best_gap = gap
                best[:] = beta[:m]
            if gap <= tol or steps >= MAX_STEPS:
                break
            sound = entering >= 0 and spread <= 0.1 * gap and stale <= 50
            if not (sound and self._enter(c, entering, violation)):
                # Rounding, not the active set, is the limit: refactorize once, then accept.
                if rebuilt:
                    break
                rebuilt, stale = True, 0
                self._rebuild(c)
        if not gap <= best_gap:
            beta[:m] = best
            self._n_free = 0
        return float(best_gap)

    def _rebuild(self, c: Array) -> None:
        m = self.size
        # any positive shift is correct; the planes' own scale keeps the factor well conditioned
        self._shift = float(np.trace(self.gram)) / m or 1.0
        self._n_free = 0
        beta, block = self.beta, self.block
        beta /= np.bincount(block, weights=beta, minlength=self.n_blocks)[block]
        slope = self.gram @ beta - c
        slope -= np.bincount(block, weights=beta * slope, minlength=self.n_blocks)[block]
        for j in np.argsort(-beta, kind="stable"):
            if beta[j] > 0.0:
                self._enter(c, int(j), float(slope[j]))

    def _enter(self, c: Array, j: int, slope: float) -> bool:
        self._n_free, entered = qp.enter(
            self._G, c, self._block, self._shift, self._beta, self._free, self._n_free,
            self._L, self._Y, j, slope,
        )  # fmt: skip
        return bool(entered)
